"""The acknowledgements (`Ack`) of log partitions about feeds, for the jobs agent and the driver of a query.

A log partition acknowledges that it has registered, activated, failed or removed a feed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import Ack
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Acknowledgements, Answers


class FeedAnswers:
    """The acknowledgements about all feeds, by feed and epoch: the *answers* of log partitions.

    Epochs without answers are not stored. The epoch in a definition may be any number, so nothing may loop
    over all numbers up to it.
    """

    def __init__(self) -> None:
        self._feeds: defaultdict[FeedId, dict[FeedEpoch, Acknowledgements]] = defaultdict(dict)

    def add(self, ack: Ack) -> None:
        """Take in one answer. It never replaces a later one (``Acknowledgements``)."""
        self._feeds[ack.feed_id].setdefault(ack.epoch, Acknowledgements(ack.epoch)).add(ack)

    def of(self, feed_id: FeedId, epoch: FeedEpoch) -> Answers:
        """Return the last answer of each log partition about an epoch of a feed."""
        answers = self._feeds.get(feed_id, {}).get(epoch)
        return {} if answers is None else answers.by_partition()

    def about(self, feed: FeedView) -> Answers:
        """Return the last answer of each log partition about the present epoch of a feed."""
        definition = feed.defined
        return {} if definition is None else self.of(definition.id, definition.epoch)

    def by_epoch(self, feed_id: FeedId) -> Mapping[FeedEpoch, Answers]:
        """Return the last answer of each log partition, for each epoch of the feed that has answers."""
        epochs = self._feeds.get(feed_id, {})
        return {epoch: answers.by_partition() for epoch, answers in epochs.items()}
