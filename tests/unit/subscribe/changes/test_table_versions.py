"""Rows of several versions of a table: of those that a subscription was planned with, and of later ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.unit.changefeed.encoding.avro.tables_of_types import sql_table
from tests.unit.changefeed.tables import STRING, deletion_of, row, update
from tests.unit.subscribe.changes.hand_topic import Topic
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.client.subscribe.feed_catalog import relation_of
from tidegate.errors import SchemaMismatch
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.relation import Relations

DIFF: Final = FeedOptions(updated=True, diff=True)
FEEDS: Final = {
    "diff": DIFF,
    "diff in Avro": replace(DIFF, format=Format.AVRO),
    "wrapped": FeedOptions(updated=True),
    "enriched": FeedOptions(updated=True, envelope=Envelope.ENRICHED),
    "Avro": FeedOptions(updated=True, format=Format.AVRO),
}
#: Statements whose rows are decoded by each of the ways.
STATEMENTS: Final = (
    "prices",
    "prices ENVELOPE UPSERT (KEY (id))",
    "prices ENVELOPE DEBEZIUM (KEY (id))",
    "(SELECT id FROM prices WHERE balance > 0)",
    "(SELECT * FROM prices ORDER BY balance LIMIT 3)",
)
_FIRST: Final = replace(
    sql_table("prices", ("id",), id="INT8", balance="INT8"), version=1, modified=Timestamp(1)
)
_PLAIN: Final = _FIRST.columns
_NOTE: Final = Column(3, "note", STRING)


def version(number: int, *columns: Column) -> TableDescriptor:
    """A version of the table that begins at ten times its number."""
    return replace(_FIRST, version=number, modified=Timestamp(10 * number), columns=columns)


_WITH_NOTE: Final = version(2, *_PLAIN, _NOTE)
_NOTED_FIRST: Final = replace(_FIRST, columns=(*_PLAIN, _NOTE))
#: The versions that a subscription knows, and the one that comes while it is open.
LATER: Final = {
    "an added column is dropped": ([_FIRST, _WITH_NOTE], version(3, *_PLAIN)),
    "a dropped column comes back": (
        [_NOTED_FIRST, version(2, *_PLAIN)],
        version(3, *_PLAIN, replace(_NOTE, id=9)),
    ),
    "an added column gets the name of a dropped one": (
        [_NOTED_FIRST, version(2, *_PLAIN, Column(4, "added", STRING))],
        version(3, *_PLAIN, Column(4, "note", STRING)),
    ),
}


def plan_with(known: list[TableDescriptor], options: FeedOptions, statement: str = "prices") -> SubscribePlan:
    """A plan by the versions that are known, of a feed that began after the first one."""
    relation = relation_of(TableName("prices"), known, options)
    return plan_subscribe(parse_subscribe(f"SUBSCRIBE {statement}"), Relations([relation]), 0)


def values(table: TableDescriptor, balance: int, note: str = "x") -> dict[str, Any]:
    """A row of the key 1, with a note in every column of its own."""
    known = {"id": 1, "balance": balance}
    return {column.name: known.get(column.name, note) for column in table.columns}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("what", LATER)
def test_a_row_of_a_later_version_ends_it_also_if_older_ones_had_these_columns(
    what: str, statement: str, feed: str
) -> None:
    known, later = LATER[what]
    topic = Topic(known[-1], FEEDS[feed])
    topic.commit(25, row(known[-1], **values(known[-1], 10)))
    topic.mark(28)
    plan = plan_with(known, topic.options, statement)
    for subscribed in (topic.subscribed, topic.shared):
        assert len(subscribed(plan, 1)) == 1
    topic.table = later
    # A worker reads the row before by the later version too.
    topic.commit(30, update(row(later, **values(later, 10, "")), row(later, **values(later, 11))))
    topic.mark(40)
    for as_of in (1, 28):
        for subscribed in (topic.subscribed, topic.shared):
            with pytest.raises(SchemaMismatch, match=r"offset 2 of prices\[0\] is of another version"):
                subscribed(plan, as_of)


@pytest.mark.parametrize("feed", ["diff", "diff in Avro"])
def test_a_deletion_that_shows_the_row_without_a_column_retracts_no_other_row(feed: str) -> None:
    known, later = LATER["an added column is dropped"]
    topic = Topic(known[-1], FEEDS[feed])
    topic.commit(25, row(known[-1], **values(known[-1], 10)))
    topic.mark(28)
    topic.table = later
    topic.commit(30, deletion_of(row(later, **values(later, 10))))
    topic.mark(40)
    with pytest.raises(SchemaMismatch, match="new columns: none; missing columns: note"):
        topic.subscribed(plan_with(known, topic.options), 1)


@pytest.mark.parametrize("feed", ["wrapped", "Avro"])
def test_a_deletion_without_the_row_before_is_of_any_version(feed: str) -> None:
    known, later = LATER["an added column is dropped"]
    topic = Topic(known[-1], FEEDS[feed])
    topic.commit(25, row(known[-1], **values(known[-1], 10)))
    topic.mark(28)
    topic.table = later
    topic.commit(30, deletion_of(row(later, **values(later, 10))))
    topic.mark(40)
    plan = plan_with(known, topic.options)
    for subscribed in (topic.subscribed, topic.shared):
        assert subscribed(plan, 1) == [(1, 1, 10, "x"), (-1, 1, 10, "x")]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize(
    ("known", "older", "newer"),
    [
        ([_FIRST, _WITH_NOTE], (1, 10, None), (1, 11, "x")),
        ([_NOTED_FIRST, version(2, *_PLAIN)], (1, 10), (1, 11)),
    ],
    ids=["added", "dropped"],
)
def test_rows_of_all_versions_that_are_known_come_in_one_opening(
    known: list[TableDescriptor], older: tuple[Any, ...], newer: tuple[Any, ...], feed: str
) -> None:
    first, last = known
    topic = Topic(first, FEEDS[feed])
    topic.mark(12)
    topic.commit(15, row(first, **values(first, 10)))
    topic.commit(16, row(first, **(values(first, 7) | {"id": 2})))
    topic.table = last
    now = values(last, 10) | ({"note": None} if older[-1] is None else {})
    topic.commit(20, update(row(last, **now), row(last, **values(last, 11))))
    topic.mark(25)
    plan = plan_with(known, topic.options)
    for subscribed in (topic.subscribed, topic.shared):
        assert (-1, *older) in subscribed(plan, 1)
        assert subscribed(plan, 1)[-1] == (1, *newer)
        assert sorted(each[1] for each in subscribed(plan, 22)) == [1, 2]
    assert sorted(each[1] for each in topic.subscribed(plan, 22, in_chunks=True)) == [1, 2]


@pytest.mark.parametrize("feed", ["diff", "Avro"])
def test_the_columns_of_a_version_are_wanted_from_its_time_on(feed: str) -> None:
    """A worker reads a row by the version that is valid at the row's timestamp, whenever it writes it."""
    plan = plan_with([_FIRST, _WITH_NOTE], FEEDS[feed])
    for wall, is_refused in ((19, False), (20, True)):
        topic = Topic(_FIRST, FEEDS[feed])
        topic.commit(wall, row(_FIRST, **values(_FIRST, 10)))
        topic.mark(40)
        if is_refused:
            with pytest.raises(SchemaMismatch, match="missing columns: note"):
                topic.subscribed(plan, 1)
        else:
            assert topic.subscribed(plan, 1) == [(1, 1, 10, None)]


def test_versions_with_the_same_columns_are_one_time() -> None:
    """A version that has a new index alone makes no other relation: its subscribers share a reader."""
    known = [_FIRST, _WITH_NOTE]
    relation = relation_of(TableName("prices"), known, DIFF)
    assert relation.exact_from == Timestamp(20)
    assert relation_of(TableName("prices"), [*known, version(3, *_WITH_NOTE.columns)], DIFF) == relation
    anew = [*known, version(3, *_PLAIN), version(4, *_WITH_NOTE.columns)]
    assert relation_of(TableName("prices"), anew, DIFF).exact_from == Timestamp(40)
