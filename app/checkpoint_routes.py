"""Which feeds a checkpoint is for: those that it names, in the epoch that it names them in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from app.early_reports import EarlyReports
from tidegate.changefeed.feed import FeedDefinition, FeedId
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionReport, merged


class Receiver(Protocol):
    """The frontier of one epoch of one feed (``app.feed_publisher.FeedPublisher``)."""

    definition: FeedDefinition

    def apply(self, report: PartitionReport) -> None: ...


ReceiverT = TypeVar("ReceiverT", bound=Receiver)


class CheckpointRoutes(Generic[ReceiverT]):
    """The receivers of one partition of the checkpoints topic.

    A feed that a checkpoint does not name may have rows that were not written when it was made: the
    checkpoint says nothing of it. ``unknown`` tells whether the jobs topic has not told of a feed yet: what
    comes for it is kept until it begins.
    """

    def __init__(self, unknown: Callable[[FeedId], bool]) -> None:
        self.receivers: dict[FeedId, ReceiverT] = {}
        self._unknown = unknown
        self._early: dict[ActiveFeed, EarlyReports] = defaultdict(EarlyReports)

    def begin(self, receiver: ReceiverT) -> None:
        """From now on the feed has a receiver; it gets what came early for its epoch."""
        definition = receiver.definition
        self.receivers[definition.id] = receiver
        early = self._early.pop(ActiveFeed(definition.id, definition.epoch), None)
        for report in () if early is None else early.take():
            receiver.apply(report)

    def end(self, feed_id: FeedId) -> ReceiverT:
        """The feed has no receiver any more: the one that it had."""
        return self.receivers.pop(feed_id)

    def forget(self, feed_id: FeedId) -> None:
        """Nobody will begin the feed."""
        for active in [active for active in self._early if active.feed_id == feed_id]:
            del self._early[active]

    def deliver(self, reports: Iterable[PartitionReport]) -> None:
        """Give each feed what it is named in."""
        for report in merged(reports):
            for active in report.feeds:
                self._deliver(report, active)

    def _deliver(self, report: PartitionReport, active: ActiveFeed) -> None:
        receiver = self.receivers.get(active.feed_id)
        if receiver is None:
            if self._unknown(active.feed_id):
                self._early[active].add(report)
        elif receiver.definition.epoch == active.epoch:
            receiver.apply(report)
        elif receiver.definition.epoch < active.epoch:
            self._early[active].add(report)
