"""Tests which descriptor version governs a row."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from tidegate.errors import DescriptorConflict, UnknownTable, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import Catalog, Column, Family, KeyPart, TableDescriptor, parse_sql_type

FIRST = TableDescriptor(
    id=51,
    name="accounts",
    version=1,
    modified=Timestamp(100),
    columns=(Column(1, "id", parse_sql_type("INT")),),
    primary_key=(KeyPart(1),),
    families=(Family(0, "primary", (1,)),),
    database="bank",
)
SECOND = replace(FIRST, version=2, modified=Timestamp(200, 5), name="ledger")
FOURTH = replace(FIRST, version=4, modified=Timestamp(400), dropped=True)
TWO_FAMILIES = replace(
    FIRST, id=52, name="wide", families=(Family(0, "f0", (1,)), Family(1, "f1", (2,), default_column_id=2))
)


@pytest.mark.parametrize("order", list(permutations([FIRST, SECOND, FOURTH])))
def test_the_latest_version_not_after_the_row_governs_it(order: tuple[TableDescriptor, ...]) -> None:
    catalog = Catalog()
    assert all(catalog.add(descriptor) for descriptor in order)
    for timestamp, expected in (
        (Timestamp(100), FIRST),
        (Timestamp(200, 4), FIRST),
        (Timestamp(200, 5), SECOND),
        (Timestamp(399, 2**31 - 1), SECOND),
        (Timestamp(400), FOURTH),
        (Timestamp(10**18), FOURTH),
    ):
        assert catalog.at(51, timestamp).descriptor == expected
    assert catalog.latest(51).descriptor == FOURTH
    assert list(catalog.descriptors()) == [FIRST, SECOND, FOURTH]


def test_a_single_version_governs_only_from_its_time_on() -> None:
    catalog = Catalog()
    catalog.add(FIRST)
    for _ in range(2):  # the second time through what the first one kept
        assert catalog.at(51, Timestamp(100)).descriptor == FIRST
        with pytest.raises(UnknownTable, match=r"no descriptor of table 51 is valid at 99\.0000000000"):
            catalog.at(51, Timestamp(99))


def test_a_version_added_later_is_seen_at_once() -> None:
    catalog = Catalog()
    catalog.add(FIRST)
    assert catalog.at(51, Timestamp(300)).descriptor == FIRST
    catalog.add(SECOND)
    assert catalog.at(51, Timestamp(300)).descriptor == SECOND
    assert catalog.at(51, Timestamp(150)).descriptor == FIRST


def test_codecs_are_compiled_once() -> None:
    catalog = Catalog()
    catalog.add(FIRST)
    catalog.add(SECOND)
    assert catalog.at(51, Timestamp(150)) is catalog.at(51, Timestamp(160))
    assert catalog.latest(51) is catalog.at(51, Timestamp(300))


def test_identical_redelivery_is_nothing() -> None:
    catalog = Catalog()
    assert catalog.add(FIRST)
    assert not catalog.add(replace(FIRST))
    assert list(catalog.descriptors()) == [FIRST]


@pytest.mark.parametrize(
    "conflicting",
    [
        replace(FIRST, name="other"),
        replace(SECOND, modified=Timestamp(100)),
        replace(SECOND, modified=Timestamp(99)),
        replace(FIRST, version=0, modified=Timestamp(101)),
    ],
)
def test_versions_that_contradict_each_other_are_refused_and_change_nothing(
    conflicting: TableDescriptor,
) -> None:
    catalog = Catalog()
    catalog.add(FIRST)
    with pytest.raises(DescriptorConflict, match=r"\(51\)"):
        catalog.add(conflicting)
    assert list(catalog.descriptors()) == [FIRST]


def test_unknown_tables_are_named() -> None:
    with pytest.raises(UnknownTable, match="table 99 is unknown"):
        Catalog().at(99, Timestamp(1))
    with pytest.raises(UnknownTable, match="table 99 is unknown"):
        Catalog().latest(99)


def test_a_table_that_cannot_be_fed_troubles_nobody_who_does_not_ask_for_it() -> None:
    catalog = Catalog()
    catalog.add(TWO_FAMILIES)
    assert catalog.by_name("wide") == TWO_FAMILIES
    with pytest.raises(UnsupportedTable, match="wide"):
        catalog.at(52, Timestamp(100))


@pytest.mark.parametrize("name", ["ledger", "public.ledger", "bank.public.ledger"])
def test_tables_go_by_their_newest_name(name: str) -> None:
    catalog = Catalog()
    catalog.add(FIRST)
    assert catalog.by_name("accounts") == FIRST
    catalog.add(SECOND)
    assert catalog.by_name(name) == SECOND
    assert catalog.by_name("accounts") is None
    assert catalog.by_name("ledger.public") is None


def test_dropped_tables_have_no_name() -> None:
    catalog = Catalog()
    catalog.add(FIRST)
    catalog.add(FOURTH)
    assert catalog.by_name("accounts") is None
    catalog.add(replace(FIRST, id=60))
    assert catalog.by_name("accounts") == replace(FIRST, id=60)
