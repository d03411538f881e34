"""Closed cuts: how far a stream has read, and the form in which Spark stores that.

A cut is *closed* when the last markers of all partitions of all topics are at or above it: every row at or
below it is in its topic. A batch of a stream has the rows above one closed cut, and at or below the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.errors import HistoryLost, InputError
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.subscribe.gate.feed_record import FeedPartition

#: The version of the stored form. A reader refuses those that it does not know.
_FORMAT: Final = 1
#: What to do when a query cannot go on from its checkpoint.
ANEW: Final = "Begin with a new checkpoint"


@dataclass(frozen=True, slots=True)
class ClosedCut:
    """A point that a stream has reached.

    Attributes:
        closed: every row at or below it was read.
        positions: for each partition an offset at or below that of the first row above ``closed``.
        topic_ids: the ids of the topics; offsets of a topic with another id say nothing.
        feed_id: the id of the feed; empty in cuts of earlier versions. Another feed may get its topics later.
    """

    closed: Timestamp
    positions: Mapping[FeedPartition, int]
    topic_ids: Mapping[str, str]
    feed_id: str = ""

    def require_of(self, feed_id: str, topic_ids: Mapping[str, str]) -> None:
        """Require that the cut is one of this feed and of these topics, with their ids.

        Raises ``InputError`` for another feed or other topics, ``HistoryLost`` for a topic with another id.
        """
        if self.feed_id not in ("", feed_id):
            raise InputError(
                f"The checkpoint is of the feed {self.feed_id}, and the query reads {feed_id}, which has a "
                f"start of its own. {ANEW}."
            )
        if self.topic_ids.keys() != topic_ids.keys():
            raise InputError(
                f"The checkpoint is of the topics {', '.join(sorted(self.topic_ids))}, and the query reads "
                f"{', '.join(sorted(topic_ids))}. {ANEW}."
            )
        for topic, known in self.topic_ids.items():
            if topic_ids[topic] != known:
                raise HistoryLost(
                    f"Topic {topic} was deleted and created anew: its offsets start again. {ANEW}", topic
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the stored form: ``{"format": 1, "closed": "17.0000000000", "topics": {"t": {"id": "x",
        "offsets": {"0": 7}}}, "feed": "1"}``.
        """
        topics: dict[str, dict[str, Any]] = {
            topic: {"id": self.topic_ids[topic], "offsets": {}} for topic in sorted(self.topic_ids)
        }
        for place in sorted(self.positions):
            topics[place.topic]["offsets"][str(place.partition)] = self.positions[place]
        feed = {"feed": self.feed_id} if self.feed_id else {}
        return {"format": _FORMAT, "closed": self.closed.decimal(), "topics": topics, **feed}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ClosedCut:
        """Read the stored form. Raises ``InputError`` for a newer form, and for anything else."""
        if stored.get("format") != _FORMAT:
            raise InputError(
                f"The checkpoint has an offset of format {str(stored.get('format'))[:20]}, and this version "
                f"of tidegate reads format {_FORMAT}: go on with the version that wrote it, or begin with a "
                "new checkpoint."
            )
        try:
            topics = stored["topics"]
            return cls(
                parse_decimal(stored["closed"]),
                {
                    FeedPartition(topic, int(number)): int(offset)
                    for topic, each in topics.items()
                    for number, offset in each["offsets"].items()
                },
                {topic: str(each["id"]) for topic, each in topics.items()},
                str(stored.get("feed", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"The checkpoint has an offset that tidegate did not write ({type(error).__name__}: "
                f"{str(error)[:100]}): begin with a new checkpoint."
            ) from None
