"""What a feed's definition and state say about its topics, for those who read them."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.changefeed.feed import FeedId, FeedTarget
from tidegate.changefeed.jobs import FeedView
from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.record import RecordDecoder, decoder_for
from tidegate.errors import InputError
from tidegate.hlc import Timestamp


@dataclass(frozen=True, slots=True)
class FeedTopics:
    """A feed that has started: where it writes, how, and above which timestamp."""

    options: FeedOptions
    start: Timestamp
    targets: tuple[FeedTarget, ...]

    @classmethod
    def of(cls, feed_id: FeedId, feed: FeedView) -> FeedTopics:
        """``InputError`` for a feed that has not started."""
        state = feed.current_state
        if feed.definition is None or state is None or state.start is None:
            raise InputError(
                f"Feed {feed_id} is {feed.status.value} and has no topics yet; try again once it runs."
            )
        return cls(feed.definition.options, state.start, state.targets)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics of its rows; its markers stand there as well, unless it has a topic for
        them."""
        return tuple(target.topic for target in self.targets)

    @property
    def resolved_topic(self) -> str:
        """The topic of its markers; empty when they stand among the rows."""
        return self.options.resolved_topic

    @property
    def decoder(self) -> RecordDecoder:
        """Reads its rows, and markers among them."""
        return decoder_for(self.options)
