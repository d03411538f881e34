"""Avro keys of one topic have one schema, or rows with equal keys are two rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.changefeed.encoding.avro.tables_of_types import sql_table
from tests.unit.changefeed.tables import deletion, row
from tests.unit.subscribe.changes.hand_topic import Topic
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.errors import SchemaMismatch
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.changes.key_schema import KeySchema

_NARROW = sql_table("prices", ("id",), id="INT4", v="INT8")
_WIDE = replace(sql_table("prices", ("id",), id="INT8", v="INT8"), version=2)
_AVRO = FeedOptions(updated=True, format=Format.AVRO, confluent_schema_registry="http://127.0.0.1:8081")


def _changed(options: FeedOptions) -> Topic:
    """A row of a table, the same row after a change of its key's type, and its end."""
    topic = Topic(_NARROW, options)
    topic.commit(10, row(_NARROW, id=1, v=7))
    topic.mark(15)
    topic.table = _WIDE
    topic.commit(20, row(_WIDE, id=1, v=8))
    topic.mark(25)
    topic.commit(30, deletion(_WIDE, 1))
    topic.mark(35)
    topic.table = _NARROW  # whoever subscribes has not heard of the change
    return topic


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("as_of", [15, 25, 35])
@pytest.mark.parametrize("clauses", ["", "ENVELOPE UPSERT (KEY (id))"])
def test_a_subscription_ends_where_keys_have_another_schema(
    clauses: str, as_of: int, in_chunks: bool
) -> None:
    topic = _changed(_AVRO)
    with pytest.raises(SchemaMismatch, match=r"key at offset 2 of prices\[0\] has the schema 3"):
        topic.subscribed(topic.plan(clauses), as_of, in_chunks=in_chunks)


def test_so_does_a_table_that_several_subscriptions_share() -> None:
    topic = _changed(_AVRO)
    with pytest.raises(SchemaMismatch, match=r"key at offset 2 of prices\[0\] has the schema 3"):
        topic.shared(topic.plan(), 15)


def test_a_key_in_json_has_no_schema() -> None:
    topic = _changed(FeedOptions(updated=True))
    assert topic.subscribed(topic.plan(), 15) == [(1, 1, 7), (-1, 1, 7), (1, 1, 8), (-1, 1, 8)]


def test_a_value_may_have_another_schema() -> None:
    topic = Topic(_NARROW, _AVRO)
    topic.commit(10, row(_NARROW, id=1, v=7))
    topic.mark(15)
    topic.table = replace(sql_table("prices", ("id",), id="INT4", v="INT4"), version=2)
    topic.commit(20, row(topic.table, id=1, v=8))
    topic.mark(25)
    topic.table = _NARROW
    assert topic.subscribed(topic.plan(), 15) == [(1, 1, 7), (-1, 1, 7), (1, 1, 8)]


def test_after_a_resume_the_keys_that_are_stored_count() -> None:
    first, *later = (opening for opening, _ in _changed(_AVRO).openings())
    rows = MemoryKeyRows()
    rows.replace(first.rows.keys[0], (1, 7))
    for opening in later:
        KeySchema(MemoryKeyRows()).require(opening)
        with pytest.raises(SchemaMismatch, match=r"key at offset \d of prices\[0\] has the schema 3"):
            KeySchema(rows).require(opening)
