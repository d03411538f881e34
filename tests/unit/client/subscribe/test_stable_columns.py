"""Versions of a table whose rows are one table together, and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.hand_log import HandTable, at
from tests.unit.client.subscribe.hand_feed import ACCOUNTS, OPTIONS, TRANSFERS, HandFeed
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.client.subscribe.feed_catalog import FeedCatalog, relation_of
from tidegate.errors import InputError, SchemaMismatch
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.descriptor import Column, KeyPart, TableDescriptor
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe.statement.parser import parse_subscribe

_FIRST = HandTable.of(104, "accounts", "id INT, a INT").descriptor
_ID, _A = _FIRST.columns


def versions(*columns: Sequence[Column]) -> list[TableDescriptor]:
    """The table with (id, a), then with these columns, each ten seconds later."""
    later = [
        replace(_FIRST, version=number + 1, modified=at(10 * number), columns=tuple(each))
        for number, each in enumerate(columns, 1)
    ]
    return [_FIRST, *later]


_RENAMED = versions([_ID, replace(_A, name="b")])
_ANEW = versions([_ID], [_ID, replace(_A, id=9)])
_SWAPPED = versions(
    [_ID, _A, replace(_A, id=3, name="b")], [_ID, replace(_A, name="b"), replace(_A, id=3, name="a")]
)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (_RENAMED, "column a of .*accounts was renamed to b, by version 2"),
        (_ANEW, "column a of .*accounts was dropped and added again, by version 3"),
        (_SWAPPED, "column a of .*accounts was renamed to b, by version 3"),
    ],
    ids=["renamed", "dropped and added", "swapped"],
)
def test_a_name_that_means_several_columns_is_refused_unless_the_feed_began_later(
    table: list[TableDescriptor], fault: str
) -> None:
    last = table[-1].modified
    for start in (ZERO, Timestamp(table[1].modified.wall - 1)):
        with pytest.raises(SchemaMismatch, match=f"The {fault} .* a new feed WITH initial_scan"):
            relation_of(TableName("accounts"), table, OPTIONS, start)
    relation = relation_of(TableName("accounts"), table, OPTIONS, last)
    assert relation.columns == tuple(column.name for column in table[-1].columns)


@pytest.mark.parametrize(
    "table",
    [
        versions([_ID, _A, replace(_A, id=3, name="b")]),
        versions([_ID, replace(_A, public=False)], [_ID]),
        versions([_ID, replace(_A, name="dropped_2", public=False)], [_ID]),
        versions([replace(_A, nullable=False), _ID]),
    ],
    ids=["added", "dropped", "dropped under another name", "moved"],
)
def test_columns_that_come_and_go_are_none_the_less_one_table(table: list[TableDescriptor]) -> None:
    assert "id" in relation_of(TableName("accounts"), table, OPTIONS).columns


_OBJECT_KEYS = replace(OPTIONS, envelope=Envelope.ENRICHED, diff=False)
_AVRO = replace(OPTIONS, format=Format.AVRO)
_OTHER_KEY = [
    _FIRST,
    replace(_FIRST, version=2, modified=at(10), primary_key=(*_FIRST.primary_key, KeyPart(2))),
]
_HIDDEN_KEY = [
    replace(each, primary_key=(KeyPart(3), *each.primary_key), columns=(*each.columns, shard))
    for each, shard in zip(
        versions([_ID, _A]),
        [replace(_A, id=3, name=name, public=False) for name in ("shard_8", "shard_16")],
        strict=True,
    )
]


@pytest.mark.parametrize(
    ("table", "options", "fault"),
    [
        (_OTHER_KEY, OPTIONS, "was id and is id, a, by version 2"),
        (_OTHER_KEY, _OBJECT_KEYS, "was id and is id, a, by version 2"),
        (_HIDDEN_KEY, _OBJECT_KEYS, "was shard_8, id and is shard_16, id, by version 2"),
        (_HIDDEN_KEY, _AVRO, "was shard_8, id and is shard_16, id, by version 2"),
    ],
)
def test_another_primary_key_is_refused_unless_the_feed_began_later(
    table: list[TableDescriptor], options: FeedOptions, fault: str
) -> None:
    last = table[-1].modified
    with pytest.raises(SchemaMismatch, match=f"The primary key of .*accounts {fault} .* WITH initial_scan"):
        relation_of(TableName("accounts"), table, options, Timestamp(last.wall - 1))
    assert relation_of(TableName("accounts"), table, options, last).primary_key


def test_names_of_a_key_that_no_record_shows_may_change() -> None:
    relation = relation_of(TableName("accounts"), _HIDDEN_KEY, OPTIONS)
    assert relation.primary_key == ("shard_16", "id")


@pytest.mark.parametrize(
    ("key", "in_json", "in_avro"),
    [
        ("DECIMAL", True, False),
        ("DECIMAL(10,2)[]", True, False),
        ("FLOAT8", True, True),
        ("FLOAT4[]", True, True),
        ("INT8", False, False),
        ("STRING[]", False, False),
    ],
)
def test_columns_of_a_key_that_have_two_forms(key: str, in_json: bool, in_avro: bool) -> None:
    table = [HandTable.of(104, "accounts", f"id {key}, a {key}").descriptor]
    for options, composite in ((OPTIONS, in_json), (_OBJECT_KEYS, in_json), (_AVRO, in_avro)):
        expected = frozenset({"id"} if composite else ())
        assert relation_of(TableName("accounts"), table, options).composite == expected


@pytest.mark.broker
def test_a_table_that_is_refused_hides_no_other_one(broker: KafkaBroker, topic_prefix: str) -> None:
    first = ACCOUNTS.descriptor
    columns = (*first.columns[:-1], replace(first.columns[-1], name="remark"))
    second = replace(first, version=2, modified=at(10), columns=columns)
    feed = HandFeed(broker.bootstrap, topic_prefix, descriptors=(first, second))
    HandFeed(broker.bootstrap, topic_prefix, 1, descriptors=(TRANSFERS.descriptor,), beside=feed)
    catalog = FeedCatalog(feed.connection, feed.app_id, feed.prefix)
    with pytest.raises(SchemaMismatch, match=r"column note of .*accounts was renamed to remark"):
        catalog.table(parse_subscribe("SUBSCRIBE accounts"))
    assert [each.name.name for each in catalog.relations()] == ["transfers"]


@pytest.mark.broker
def test_a_table_whose_descriptor_has_left_the_log_hides_no_other_one(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = HandFeed(broker.bootstrap, topic_prefix)
    HandFeed(broker.bootstrap, topic_prefix, 1, descriptors=(TRANSFERS.descriptor,), beside=feed)
    left = {TRANSFERS.descriptor.id: (TRANSFERS.descriptor,)}
    catalog = FeedCatalog(feed.connection, feed.app_id, feed.prefix, lambda: left)
    assert [each.name.name for each in catalog.relations()] == ["transfers"]
    with pytest.raises(InputError, match=r"has no descriptor of .*accounts any more"):
        catalog.table(parse_subscribe("SUBSCRIBE accounts"))
    # A log that knows none is the wrong one.
    with pytest.raises(InputError, match="is --topic-prefix that of the store's log"):
        FeedCatalog(feed.connection, feed.app_id, feed.prefix, dict).relations()


_WIDER = versions([replace(_ID, type=parse_sql_type("INT4")), _A])


def test_a_key_column_of_another_type_is_refused_where_keys_have_the_number_of_their_schema() -> None:
    """One key has two forms then, and the row of the first form would never be deleted."""
    avro = replace(OPTIONS, format=Format.AVRO, confluent_schema_registry="http://127.0.0.1:8081")
    with pytest.raises(SchemaMismatch, match="was id INT8 NOT NULL and is id INT4 NOT NULL, by version 2"):
        relation_of(TableName("accounts"), _WIDER, avro, ZERO)
    assert relation_of(TableName("accounts"), _WIDER, avro, _WIDER[-1].modified).primary_key == ("id",)
    assert relation_of(TableName("accounts"), _WIDER, OPTIONS, ZERO).primary_key == ("id",)
