"""Sinks whose addresses come to mean another cluster for good; operators have their feeds go on there.

The other cluster has topics of the feed's names: empty ones, or what a mirror has copied: of each partition
everything up to some place, another one for each (docs/protocols/accept-cluster.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.judge import markers_of, read_output
from tests.simulation.kafka import Broker, SentRecord, Topic
from tests.simulation.registry import Registry
from tests.simulation.sinks import FailOver, Origin
from tidegate.changefeed.definition.feed import AcceptedCluster, FeedDefinition, FeedEpoch
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.hlc import ZERO, Timestamp


@dataclass(frozen=True, slots=True)
class Accepted:
    """The operator's request. ``mirrors``: the rows at or below its timestamp were there already."""

    definition: FeedDefinition
    mirrors: bool

    def judged(self, feed: FeedView) -> FeedView:
        """Return the feed as its output on the other cluster is judged: from the accepted timestamp on, or
        with a mirror from its start on."""
        state, began, accepted = feed.current_state, feed.beginning, self.definition.accepted
        if state is None or began is None or accepted is None:
            return feed
        if self.mirrors:
            return replace(feed, takeover=None, state=replace(state, start=began.start))
        return replace(feed, state=replace(state, start=accepted.begin or began.start))


def accept(
    feed: FeedView, plan: FailOver, cluster: str, broker: Broker, registry: Registry, rng: Random
) -> Accepted | None:
    """Prepare the cluster that stands in for ``broker``, and have the feed go on there."""
    defined, stranger = feed.defined, broker.stranger
    assert defined is not None
    assert stranger is not None
    epoch = FeedEpoch(defined.epoch + 1)
    left = takeover(replace(defined, epoch=epoch), feed.state, feed.progress, feed.takeover)
    if left.start is None:
        return None
    _make_anew(stranger)  # rows that came there unasked
    begin: Timestamp | None = None
    mirrors = False
    match plan.origin:
        case Origin.THERE:
            _mirror(broker, stranger, rng)
            begin = min(markers_of(read_output(stranger, registry, feed)).values(), default=ZERO)
            mirrors = begin > left.start
            if not mirrors:  # some partition has no marker yet
                _make_anew(stranger)
                begin = None
        case Origin.MARKER:
            begin = left.marked
        case Origin.HIGH_WATER if left.high_water is not None:
            begin = Timestamp(left.start.wall + int(plan.share * (left.high_water.wall - left.start.wall)))
            begin = max(begin, left.start)
    return Accepted(replace(defined, epoch=epoch, accepted=AcceptedCluster(epoch, cluster, begin)), mirrors)


def _make_anew(broker: Broker) -> None:
    for name, topic in list(broker.topics.items()):
        del broker.topics[name]
        broker.create(name, len(topic.partitions), topic.config)


def _mirror(source: Broker, copy: Broker, rng: Random) -> None:
    """Copy the beginning of each partition."""
    for name, topic in source.topics.items():
        for place, records in _committed(source, topic):
            copied = records[: rng.randint(len(records) // 2, len(records))]
            copy.append(copy.partition(name, place), copied)


def _committed(broker: Broker, topic: Topic) -> Iterator[tuple[int, list[SentRecord]]]:
    found: dict[int, list[SentRecord]] = {place.number: [] for place in topic.partitions}
    for place, entry in broker.committed(topic.name):
        assert entry.record is not None
        found[place.number].append(entry.record._replace(timestamp_ms=entry.timestamp))
    yield from found.items()
