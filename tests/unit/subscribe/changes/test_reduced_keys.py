"""A row and its deletion have one key, though their feed writes it in two ways."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest

from tests.unit.changefeed.encoding.avro.tables_of_types import sql_table
from tests.unit.changefeed.tables import deletion, deletion_of, row, update
from tests.unit.subscribe.changes.hand_topic import PRICES, WRAPPED, Topic
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.errors import UnreadableRow
from tidegate.rows.row import Row
from tidegate.subscribe.changes.reduced_keys import reduced_value, with_reduced_keys
from tidegate.subscribe.fingerprint import fingerprint

#: The feeds whose keys of a row and its deletion differ.
FEEDS: Final = (
    WRAPPED,
    FeedOptions(updated=True, diff=True),
    FeedOptions(updated=True, envelope=Envelope.ENRICHED),
    FeedOptions(updated=True, envelope=Envelope.ENRICHED, enriched_properties="schema,source"),
)
UPSERT: Final = "ENVELOPE UPSERT (KEY (id))"
DEBEZIUM: Final = "ENVELOPE DEBEZIUM (KEY (id))"
#: A decimal as a row has it, as the store's key has it, and as it is shown in KEY.
DECIMALS: Final = [
    ("1.50", "1.5", "1.5"),
    ("5.00", "5", "5"),
    ("100", "1E+2", "100"),
    ("-20.0", "-2E+1", "-20"),
    ("0.00", "0", "0"),
    ("1E+300", "1E+300", "1E+300"),
    ("0.00000010", "1E-7", "1E-7"),
    ("12345678901234567890123.0", "12345678901234567890123", "12345678901234567890123"),
]


def spelled(rows: list[Any]) -> list[Any]:
    """Rows with the text of their numbers."""
    return [tuple(str(value) for value in row) for row in rows]


def life(options: FeedOptions, number: str, key: str) -> Topic:
    """A row comes at 10 and goes at 20."""
    topic = Topic(options=options)
    topic.commit(10, come := row(PRICES, id=Decimal(number), v=1))
    topic.mark(15)
    topic.commit(20, replace_key(deletion_of(come), Decimal(key)))
    topic.mark(30)
    return topic


def replace_key(version: Row, *key: Any) -> Row:
    """A version with its key in the form of the store."""
    return version._replace(key=key)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", FEEDS, ids=["wrapped", "diff", "enriched", "with schema"])
@pytest.mark.parametrize(("number", "key", "shown"), DECIMALS)
def test_a_deleted_row_is_gone(options: FeedOptions, number: str, key: str, shown: str) -> None:
    topic = life(options, number, key)
    first, gone = topic.records[0], topic.records[2]
    assert (first.key == gone.key) == (number == key)
    come = str(Decimal(number))
    for subscribed in (topic.subscribed, topic.shared):
        rows = spelled(subscribed(topic.plan(), 5))
        assert [(diff, v) for diff, _, v in rows] == [("1", "1"), ("-1", "1")]
        assert rows[0][1] == rows[1][1]
        assert Decimal(rows[0][1]) == Decimal(come)
        assert spelled(subscribed(topic.plan(UPSERT), 5)) == [
            ("upsert", shown, "1"),
            ("delete", shown, "None"),
        ]
        assert spelled(subscribed(topic.plan(DEBEZIUM), 5)) == [
            ("insert", shown, "None", "1"),
            ("delete", shown, "1", "None"),
        ]
        for clauses in ("", UPSERT, DEBEZIUM):
            assert subscribed(topic.plan(clauses), 25) == []
    for clauses in ("", UPSERT, DEBEZIUM):
        assert topic.subscribed(topic.plan(clauses), 25, in_chunks=True) == []


def test_a_key_that_is_written_anew_is_the_same_row() -> None:
    topic = Topic()
    topic.commit(10, was := row(PRICES, id=Decimal("1.50"), v=1), row(PRICES, id=Decimal("2.50"), v=1))
    topic.mark(15)
    topic.commit(20, update(replace_key(was, Decimal("1.5")), row(PRICES, id=Decimal("1.5"), v=2)))
    topic.mark(30)
    for subscribed in (topic.subscribed, topic.shared):
        changes = spelled(subscribed(topic.plan(), 15))[2:]
        assert sorted(changes) == [("-1", "1.50", "1"), ("1", "1.5", "2")]
        assert spelled(subscribed(topic.plan(UPSERT), 15))[2:] == [("upsert", "1.5", "2")]
        assert spelled(subscribed(topic.plan(), 25)) == [("1", "1.5", "2"), ("1", "2.50", "1")]
        assert len(subscribed(topic.plan("WITH (SNAPSHOT = false)"), 15)) == 2
    assert len(topic.subscribed(topic.plan(), 25, in_chunks=True)) == 2


def test_key_by_a_query_shows_the_same_key() -> None:
    topic = life(WRAPPED, "1.50", "1.5")
    plan = topic.plan("ENVELOPE UPSERT (KEY (price))", "(SELECT id AS price, v + 1 AS n FROM prices)")
    expected = [("upsert", "1.5", "2"), ("delete", "1.5", "None")]
    assert spelled(topic.subscribed(plan, 5)) == expected
    assert spelled(topic.shared(plan, 5)) == expected
    keeps = topic.plan("", "(SELECT id, v FROM prices ORDER BY v LIMIT 3)")
    assert spelled(topic.subscribed(keeps, 5)) == [("1", "1.50", "1"), ("-1", "1.50", "1")]
    assert topic.subscribed(keeps, 25) == []


def test_many_rows_of_a_snapshot_that_is_larger_than_memory_lose_those_that_were_deleted() -> None:
    topic = Topic()
    topic.commit(10, *(row(PRICES, id=Decimal(f"{number}.50"), v=1) for number in range(40)))
    topic.commit(20, *(deletion(PRICES, Decimal(f"{number}.5")) for number in range(0, 40, 2)))
    topic.mark(30)
    rows = topic.subscribed(topic.plan(), 25, in_chunks=True)
    assert sorted(number for _, number, _ in rows) == [number + Decimal("0.5") for number in range(1, 40, 2)]


def test_other_columns_of_a_key_and_arrays_of_numbers() -> None:
    table = sql_table("prices", ("s", "id"), s="STRING", id="DECIMAL[]", v="INT8")
    topic = Topic(table)
    come = row(table, s='1.50 "2.0', id=(Decimal("1.50"), None, Decimal("100")), v=1)
    topic.commit(10, come)
    topic.commit(20, deletion(table, '1.50 "2.0', (Decimal("1.5"), None, Decimal("1E+2"))))
    topic.mark(30)
    assert topic.relation.composite == {"id"}
    assert topic.records[0].key != topic.records[1].key
    assert topic.subscribed(topic.plan(), 25) == []
    assert spelled(topic.subscribed(topic.plan("ENVELOPE UPSERT (KEY (s, id))"), 5)) == [
        ("upsert", '1.50 "2.0', "[Decimal('1.5'), None, 100]", "1"),
        ("delete", '1.50 "2.0', "[Decimal('1.5'), None, 100]", "None"),
    ]


@pytest.mark.parametrize("clauses", ["", UPSERT, DEBEZIUM])
@pytest.mark.parametrize("envelope", [Envelope.WRAPPED, Envelope.ENRICHED])
@pytest.mark.parametrize("record_format", [Format.JSON, Format.AVRO])
def test_a_row_of_a_negative_zero_is_gone(record_format: Format, envelope: Envelope, clauses: str) -> None:
    table = sql_table("prices", ("id",), id="FLOAT8", v="INT8")
    topic = Topic(table, FeedOptions(updated=True, format=record_format, envelope=envelope))
    topic.commit(10, row(table, id=-0.0, v=1), row(table, id=2.0, v=1))
    topic.mark(15)
    topic.commit(20, deletion(table, 0.0))
    topic.mark(30)
    assert topic.records[0].key != topic.records[3].key
    for subscribed in (topic.subscribed, topic.shared):
        assert [each[1] for each in subscribed(topic.plan(clauses), 25)] == [2]
        live = [each[1] for each in subscribed(topic.plan(UPSERT), 5) if each[1] == 0]
        assert [str(float(each)) for each in live] == ["0.0", "0.0"]
    assert [each[1] for each in topic.subscribed(topic.plan(clauses), 25, in_chunks=True)] == [2]


def test_avro_writes_a_decimal_and_its_deletion_alike() -> None:
    """Its schema has one scale, so such a table needs no reduction and shows the scale."""
    table = sql_table("prices", ("id",), id="DECIMAL(10,2)", v="INT8")
    topic = Topic(table, FeedOptions(updated=True, format=Format.AVRO))
    topic.commit(10, row(table, id=Decimal("1.50"), v=1))
    topic.commit(20, deletion(table, Decimal("1.5")))
    topic.mark(30)
    assert topic.relation.composite == frozenset()
    assert topic.records[0].key == topic.records[1].key
    assert topic.subscribed(topic.plan(), 25) == []
    assert spelled(topic.subscribed(topic.plan(UPSERT), 5)) == [
        ("upsert", "1.50", "1"),
        ("delete", "1.50", "None"),
    ]


def test_bytes_of_an_avro_key_that_look_like_a_negative_zero_stay_as_they_are() -> None:
    like = bytes(7) + b"\x80"
    table = sql_table("prices", ("b", "id"), b="BYTES", id="FLOAT8[]", v="INT8")
    topic = Topic(table, FeedOptions(updated=True, format=Format.AVRO))
    topic.commit(10, row(table, b=like, id=(-0.0, 1.0, -0.0), v=1), row(table, b=bytes(8), id=(-0.0,), v=2))
    topic.commit(20, deletion(table, like, (0.0, 1.0, 0.0)))
    topic.mark(30)
    assert [each[1:] for each in topic.subscribed(topic.plan(), 25)] == [(bytes(8), [0.0], 2)]
    many = Topic(table, topic.options)
    many.commit(10, row(table, b=like * 200, id=(0.0,), v=1))
    many.mark(30)
    with pytest.raises(
        UnreadableRow, match=r"offset 0 of prices\[0\] has more than 100 places that look like"
    ):
        many.subscribed(many.plan(), 25)


@pytest.mark.parametrize(
    ("key", "reduced"),
    [
        (b'[1.50, "1.50"]', b'[1.5, "1.50"]'),
        (b'{"1.50": 1E+2, "b": -0.0}', b'{"1.50": 100, "b": 0}'),
        (b"[-0, 0.00, -7, 0e5]", b"[0, 0, -7, 0]"),
        (b"[[1.0, null], true]", b"[[1, null], true]"),
        (b"[1000E-3, 1.000e2, 0.1E+1]", b"[1, 100, 1]"),
        (b"[%d]" % 10**150, b"[1E+150]"),
        (b"[1E+1000000]", b"[1E+1000000]"),
        (b'["a\\"1.50", 1.50, "1.50', b'["a\\"1.50", 1.5, "1.50'),
        (b"[01.50, 1., .50, -, 1.50e, 1.5.0]", b"[01.50, 1., .50, -, 1.50e, 1.5.0]"),
        (b"[1e" + b"9" * 40 + b"]", b"[1e" + b"9" * 40 + b"]"),
        (b"1.50", b"1.50"),
    ],
)
def test_numbers_of_json_are_reduced_and_damage_stays(key: bytes, reduced: bytes) -> None:
    topic = life(WRAPPED, "1.50", "1.5")
    (opening, _), _ = topic.openings()
    opening = replace(opening, rows=opening.rows.with_keys([key]))
    assert with_reduced_keys(opening, topic.relation).rows.keys == [reduced]
    again = replace(opening, rows=opening.rows.with_keys([reduced]))
    assert with_reduced_keys(again, topic.relation) is again
    assert with_reduced_keys(opening, replace(topic.relation, composite=frozenset())) is opening


@pytest.mark.parametrize(
    ("value", "reduced"),
    [
        (Decimal("1.50"), "1.5"),
        (Decimal("1E+2"), "100"),
        (Decimal("-0.00"), "0"),
        (Decimal("NaN"), "NaN"),
        (10**150, "1E+150"),
        (Decimal("1E+150"), "1E+150"),
        (-0.0, "0.0"),
        (1.5, "1.5"),
        (True, "True"),
        ("1.50", "1.50"),
        (None, "None"),
    ],
)
def test_values_that_are_equal_have_one_text(value: Any, reduced: str) -> None:
    assert str(reduced_value(value)) == reduced
    assert [str(each) for each in reduced_value([value])] == [reduced]


def test_tokens_of_before_are_those_of_another_subscription() -> None:
    """They stand after snapshots that had deleted rows. Tokens of all other tables stay as they are."""
    plan = Topic().plan()
    before = replace(plan, relation=replace(plan.relation, composite=frozenset()))
    assert fingerprint(plan, "feed") != fingerprint(before, "feed")
    texts = sql_table("prices", ("id",), id="STRING", v="DECIMAL")
    assert fingerprint(Topic(texts).plan(), "feed") == fingerprint(before, "feed")
