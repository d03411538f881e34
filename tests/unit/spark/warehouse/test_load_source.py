"""Feeds as the loader sees them, on a real broker: the columns of their rows, and what may not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.hand_log import HandTable, at
from tests.unit.client.subscribe.hand_feed import OPTIONS, HandFeed
from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import InputError, SchemaMismatch, StateError
from tidegate.rows.descriptor import Column, KeyPart, TableDescriptor
from tidegate.rows.sql_type import parse_sql_type
from tidegate.spark.datasource.source_feed import find_feed
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.load_source import FeedsSource

pytestmark = pytest.mark.broker

_FIRST = HandTable.of(104, "accounts", "id INT, a INT").descriptor
_ID, _A = _FIRST.columns
_LOADED = Columns(("id",), (LoadedColumn("id", "INT8"), LoadedColumn("a", "INT8")))


def version(number: int, *columns: Column, key: Column = _ID) -> TableDescriptor:
    """A later version of the table, with its key on one column, that many times ten seconds later."""
    later = replace(_FIRST, version=number, modified=at(10 * number), columns=columns)
    return replace(later, primary_key=(KeyPart(key.id),)) if key is not _ID else later


def text(column: Column) -> Column:
    """The column as a STRING."""
    return replace(column, type=parse_sql_type("STRING"))


def fed(
    broker: KafkaBroker, prefix: str, descriptors: Sequence[TableDescriptor], start: float = 0
) -> HandFeed:
    """A feed of the table with these versions."""
    return HandFeed(broker.bootstrap, prefix, options=OPTIONS, descriptors=descriptors, start=at(start))


def source_of(feed: HandFeed, *as_text: str) -> FeedsSource:
    """The feed, as a loader sees it."""
    names = [f"{feed.topic}.{name}" for name in as_text]
    return FeedsSource(feed.connection, feed.app_id, f"{feed.prefix}raftlog", [FeedId("feed")], as_text=names)


@pytest.mark.parametrize(
    ("later", "sentence"),
    [
        (version(2, _ID, _A, key=_A), "primary key of .*accounts was id and is a"),
        (version(2, _ID, replace(_A, id=9)), "column a of .*accounts was dropped and added again"),
        (version(2, _ID, replace(text(_A), id=9)), "column a of .*accounts was dropped and added again"),
        (version(2, _ID, replace(_A, name="b")), "column a of .*accounts was renamed to b"),
    ],
)
def test_rows_that_mean_something_else_are_refused(
    later: TableDescriptor, sentence: str, broker: KafkaBroker, topic_prefix: str
) -> None:
    feed = fed(broker, topic_prefix, [_FIRST])
    source = source_of(feed)
    assert source.columns([feed.topic], {})[feed.topic] == _LOADED
    feed.describe(later)
    feed.flush()
    with pytest.raises(
        SchemaMismatch, match=rf"{sentence}, by version 2 .* load that into another directory"
    ):
        source.columns([feed.topic], {feed.topic: _LOADED})
    asked = {"bootstrap": broker.bootstrap, "app_id": feed.app_id, "topic_prefix": feed.prefix}
    with pytest.raises(SchemaMismatch, match=f"{sentence}, by version 2 .* and read that"):
        find_feed(SourceOptions.of(asked))


def test_what_a_table_was_before_the_feed_and_after_its_end_says_nothing(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    before = replace(version(2, _ID, text(_A), key=_A), version=1, modified=at(0))
    begun, after = version(2, _ID, _A), version(4, _ID, text(_A))
    feed = fed(broker, topic_prefix, [before, begun, after], start=25)
    source = source_of(feed)
    with pytest.raises(InputError, match="The column a of accounts was INT8 and is STRING"):
        source.columns([feed.topic], {})
    feed.persist(at(30).wall)
    feed.drop()
    assert source.columns([feed.topic], {})[feed.topic] == _LOADED
    asked = {
        "bootstrap": broker.bootstrap,
        "app_id": feed.app_id,
        "topic_prefix": feed.prefix,
        "feed": "feed",
    }
    (table,) = find_feed(SourceOptions.of(asked)).tables
    assert table.columns == _LOADED
    assert table.known_from == begun.modified, "older rows on the topic are another feed's"


def test_a_column_that_was_loaded_as_text_stays_text(broker: KafkaBroker, topic_prefix: str) -> None:
    feed = fed(
        broker,
        topic_prefix,
        [_FIRST, version(2, _ID, text(_A)), version(3, _ID, text(_A), replace(_A, id=3, name="b"))],
    )
    begun = source_of(feed, "a").columns([feed.topic], {})
    assert begun[feed.topic].texts == {"a"}
    assert source_of(feed).columns([feed.topic], begun) == begun
    added = source_of(feed, "b").columns(
        [feed.topic], {feed.topic: Columns(("id",), begun[feed.topic].columns[:2])}
    )
    assert added[feed.topic].texts == {"a", "b"}
    with pytest.raises(StateError, match=r"--as-text names .*accounts\.b, which was loaded as INT8 so far"):
        source_of(feed, "b").columns([feed.topic], begun)
    with pytest.raises(InputError, match=r"--as-text names .*accounts\.c, which is no column"):
        source_of(feed, "c").columns([feed.topic], begun)
