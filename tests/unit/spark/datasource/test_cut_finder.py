"""The cuts of a feed on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import HandFeed
from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, FeedId
from tidegate.errors import HistoryLost, InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.datasource.cut_finder import CutFinder
from tidegate.spark.datasource.source_feed import find_feed
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.warehouse.load_source import FeedsSource

pytestmark = pytest.mark.broker

_BEGIN = Timestamp(20)


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed that goes on above ``_BEGIN`` on a cluster without its rows before."""
    made = HandFeed(broker.bootstrap, topic_prefix)
    made.define("feed", accepted=AcceptedCluster(FIRST_EPOCH, "", _BEGIN))
    made.mark(30)
    return made


@pytest.fixture
def finder(feed: HandFeed) -> Iterator[CutFinder]:
    options = SourceOptions.of(
        {
            "bootstrap": feed.connection.bootstrap_servers,
            "app_id": feed.app_id,
            "topic_prefix": feed.prefix,
            "feed": "feed",
        }
    )
    made = CutFinder(find_feed(options))
    yield made
    made.close()


def test_a_cluster_without_the_rows_before_has_no_table_and_changes_above_what_it_has(
    finder: CutFinder,
) -> None:
    with pytest.raises(HistoryLost, match=r"there is no snapshot. Read changes"):
        finder.whole(None)
    with pytest.raises(HistoryLost, match=r"there is no snapshot. Start from latest"):
        finder.first(ZERO)
    with pytest.raises(InputError, match=f"began at {_BEGIN}"):
        finder.first(Timestamp(_BEGIN.wall - 1))
    assert finder.first(_BEGIN).closed == _BEGIN


def test_a_topic_that_was_cut_below_a_cut_ends_the_query(finder: CutFinder) -> None:
    cut, waited = finder.first(_BEGIN), list[float]()
    finder._wait = waited.append
    beyond = {place: offset + 100 for place, offset in cut.positions.items()}
    with pytest.raises(HistoryLost, match=r"which ends at \d+: the topic was cut"):
        finder.next(replace(cut, positions=beyond), None)
    assert waited, "a new leader may have named the end"


def test_no_load_begins_where_the_rows_before_are_missing(feed: HandFeed) -> None:
    source = FeedsSource(feed.connection, feed.app_id, f"{feed.prefix}raftlog", [FeedId("feed")])
    with pytest.raises(HistoryLost, match=r"there is no snapshot. Keep the tables"):
        source.tables()
