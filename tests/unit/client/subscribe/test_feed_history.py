"""Tests what the topics of a feed can answer, by what is known of the feed and of its topics' bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.client.feeds import ID, TARGET, definition, running
from tidegate.changefeed.definition.feed import AcceptedCluster, FeedDefinition, FeedEpoch
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.errors import HistoryLost
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.relation import Relation, Relations

RELATION = Relation(TARGET.table, ("id", "balance"), ("id",))
_START = running().start or ZERO
_BEGIN = Timestamp(_START.wall + 50)


def history(accepted: AcceptedCluster | None = None, low: int = 0) -> FeedHistory:
    """Return the history of a feed that began with a scan, and goes on where ``accepted`` says."""
    defined = definition(initial_scan="yes")
    if accepted is not None:
        stored = replace(defined, epoch=accepted.epoch, accepted=accepted).to_json()
        defined = FeedDefinition.from_json(stored)
    topics = FeedTopics.of(ID, FeedView(defined=defined, state=running()))
    table = SubscribableTable(topics, TARGET, RELATION, KafkaConnection("127.0.0.1:1"))
    rows = {FeedPartition(TARGET.topic, each): Bounds(low, 100) for each in range(TARGET.partitions)}
    return FeedHistory(table, rows, {})


def test_a_topic_begins_with_the_scan_or_above_the_start() -> None:
    scan, none = history(), history()
    options = replace(none.table.feed.options, initial_scan=InitialScan.NO)
    none = replace(none, table=replace(none.table, feed=replace(none.table.feed, options=options)))
    assert (scan.begin.next(), none.begin) == (_START, _START)


def planned(more: str = "") -> SubscribePlan:
    return plan_subscribe(parse_subscribe(f"SUBSCRIBE accounts {more}"), Relations([RELATION]), 0)


@pytest.mark.parametrize("copied_above", [None, Timestamp(_BEGIN.wall - 10)])
def test_a_cluster_without_the_rows_before_has_changes_above_what_it_has_and_no_snapshot(
    copied_above: Timestamp | None,
) -> None:
    """Its topics begin at offset 0 all the same. What a mirror has of such a topic is no more."""
    lacking = history(AcceptedCluster(FeedEpoch(2), "c2", _BEGIN, copied_above))
    complete_above = copied_above or _BEGIN
    with pytest.raises(HistoryLost, match=f"goes on above {complete_above} .*: there is no snapshot"):
        lacking.choose_as_of(planned(f"AS OF {_BEGIN.wall}"), from_beginning=True)
    changes = planned(f"WITH (SNAPSHOT = false) AS OF {complete_above.wall}")
    assert lacking.choose_as_of(changes, from_beginning=False) == complete_above
    below = planned(f"WITH (SNAPSHOT = false) AS OF {complete_above.wall - 1}")
    with pytest.raises(HistoryLost, match=f"what is above {complete_above} alone"):
        lacking.choose_as_of(below, from_beginning=False)


@pytest.mark.parametrize(
    "accepted",
    [
        None,
        AcceptedCluster(FeedEpoch(2), "c2", None),
        AcceptedCluster(FeedEpoch(2), "c2", _BEGIN, ZERO),
    ],
    ids=["the first cluster", "begun again", "a mirror"],
)
def test_a_cluster_with_all_rows_has_snapshots_from_the_feeds_start_on(
    accepted: AcceptedCluster | None,
) -> None:
    assert history(accepted).choose_as_of(planned(f"AS OF {_START.wall}"), from_beginning=True) == _START
