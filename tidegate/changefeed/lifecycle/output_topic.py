"""The stored facts about each topic that a feed writes to: its id (KIP-516), and who created it.

A name tells neither: a topic may be deleted, and created again by somebody else. Feeds of earlier versions
have no ids stored, and neither has Kafka without topic ids.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.stored_fields import items, plain_text

_ID: Final = re.compile(r"[A-Za-z0-9_-]{0,22}")


class TopicOrigin(enum.Enum):
    """The origin of a feed's topic: who created it."""

    UNKNOWN = "unknown"
    """Nobody knows who created it."""
    ANNOUNCED = "announced"
    """It was missing, and the feed was about to create it. Whoever created it may have died before storing
    that it is created."""
    CREATED = "created"
    """The application created it, for this feed or an earlier one."""
    EXISTING = "existing"
    """Somebody else created it, and the feed was told to use it."""


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """One topic of a feed. ``id`` is empty if it is not known."""

    id: str
    origin: TopicOrigin


#: The topics of a feed in the order of its tables, the topic of its markers last; empty while nothing is
#: known.
OutputTopics: TypeAlias = tuple[OutputTopic, ...]


def topics_json(topics: Sequence[OutputTopic]) -> list[list[str]]:
    """Return the stored form of a feed's topics, a pair of id and origin for each:
    ``[["4L6g3nShT-eMCtK--X86sw", "created"], ...]``.
    """
    return [[topic.id, topic.origin.value] for topic in topics]


def read_topics(stored: Mapping[str, Any]) -> OutputTopics:
    """Read the member ``topics``, which earlier versions did not write.

    Raises ``ValueError`` when it is damaged.
    """
    found: Iterable[Any] = items(stored, "topics") if "topics" in stored else ()
    return tuple(_read_topic(*each) for each in found)


def _read_topic(topic_id: object, origin: object) -> OutputTopic:
    known = plain_text(topic_id, "the id of a topic")
    if _ID.fullmatch(known) is None:
        raise ValueError("a topic has no such id")
    return OutputTopic(known, TopicOrigin(origin))
