"""Gives each checkpoint to the feeds that it names, if they are in the epochs that it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Generic, Protocol, TypeVar

from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.lifecycle.frontier import FeedFrontier, share, unshare
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionProgress, merged
from tidegate.processor.range_claims import RangeClaims
from tidegate.worker.markers.early_reports import EarlyReports

_SHARE_REPORTS: Final = 500


class Receiver(Protocol):
    """The receiver of checkpoints for one epoch of one feed.

    It is a ``tidegate.worker.markers.feed_publisher.FeedPublisher``. ``frontier`` is ``None`` before it has
    begun.
    """

    definition: FeedDefinition
    frontier: FeedFrontier | None

    def apply(self, report: PartitionProgress) -> None: ...


ReceiverT = TypeVar("ReceiverT", bound=Receiver)


class CheckpointRoutes(Generic[ReceiverT]):
    """The receivers of the checkpoints that one partition of the checkpoints topic brings.

    A checkpoint says nothing about a feed that it does not name: that feed may have rows that were not
    written when the checkpoint was made. ``unknown`` says whether a feed is one that the jobs topic has not
    told of yet. The reports for such a feed are kept until it begins.

    Feeds on the same tables come to the same spans as soon as every range has reported to all of them. After
    every ``share_reports`` reports, the feeds that all of these reports named begin to share one copy of
    their spans. A report is applied to that copy only once. A feed gets a copy of its own when a report does
    not name it.

    While several ranges have a key at the same time, no receiver is given what they report of this key
    (``claims``).
    """

    def __init__(self, unknown: Callable[[FeedId], bool], share_reports: int = _SHARE_REPORTS) -> None:
        self.receivers: dict[FeedId, ReceiverT] = {}
        self.claims = RangeClaims()
        self._unknown = unknown
        self._early: dict[ActiveFeed, EarlyReports] = defaultdict(EarlyReports)
        self._share_reports = share_reports
        self._reports = 0
        self._missed: set[FeedId] = set()  # feeds that one of the last ``_reports`` reports did not name

    def begin(self, receiver: ReceiverT) -> None:
        """Add the receiver of a feed, and give it the reports that came early for its epoch."""
        definition = receiver.definition
        self.receivers[definition.id] = receiver
        early = self._early.pop(ActiveFeed(definition.id, definition.epoch), None)
        for report in () if early is None else early.take_reports():
            receiver.apply(report)

    def end(self, feed_id: FeedId) -> ReceiverT:
        """Remove the receiver of a feed. Returns it, with a copy of its spans that no other feed shares."""
        receiver = self.receivers.pop(feed_id)
        unshare(_frontiers([receiver]), _frontiers(self.receivers.values()))
        return receiver

    def forget(self, feed_id: FeedId) -> None:
        """Drop the reports that are kept for a feed: it will not begin here."""
        for active in [active for active in self._early if active.feed_id == feed_id]:
            del self._early[active]

    def deliver(self, reports: Iterable[PartitionProgress]) -> None:
        """Give each report to the feeds that it names."""
        for report in merged(self.claims.count(reports)):
            self._deliver(report)
            self._reports += 1
            if self._reports >= self._share_reports:
                steady = (known for feed_id, known in self.receivers.items() if feed_id not in self._missed)
                share(_frontiers(steady))
                self._missed.clear()
                self._reports = 0

    def _deliver(self, report: PartitionProgress) -> None:
        named = {
            active.feed_id: known for active in report.feeds if (known := self._receiver(report, active))
        }
        unnamed = self.receivers.keys() - named.keys()
        if unnamed:
            self._missed |= unnamed
            unshare(_frontiers(named.values()), _frontiers(self.receivers[feed_id] for feed_id in unnamed))
        told: set[int] = set()
        for receiver in named.values():
            spans = None if receiver.frontier is None else id(receiver.frontier.spans)
            receiver.apply(report if spans not in told else replace(report, starts=(), ends=(), resolved=()))
            if spans is not None:
                told.add(spans)

    def _receiver(self, report: PartitionProgress, active: ActiveFeed) -> ReceiverT | None:
        """Return the receiver of a report for ``active``; ``None`` if there is none now.

        Keeps the report if the receiver may still begin.
        """
        receiver = self.receivers.get(active.feed_id)
        if receiver is not None and receiver.definition.epoch == active.epoch:
            return receiver
        early = (
            self._unknown(active.feed_id) if receiver is None else receiver.definition.epoch < active.epoch
        )
        if early:
            self._early[active].add(report)
        return None


def _frontiers(receivers: Iterable[Receiver]) -> list[FeedFrontier]:
    return [receiver.frontier for receiver in receivers if receiver.frontier is not None]
