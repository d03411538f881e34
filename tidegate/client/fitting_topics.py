"""Checks that a feed can write to existing topics: their cleanup, record limit and partition count.

Engines check before an epoch of the feed begins. Commands check before they ask for an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.changefeed.definition.feed import FeedDefinition, FeedTarget
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import RECORD_ROOM
from tidegate.changefeed.encoding.resolved_topic import marker_partitions
from tidegate.client.kafka.row_delivery import BATCH_BYTES
from tidegate.client.kafka.topic_admin import TopicAdmin
from tidegate.errors import FeedError

#: The lowest limit of a topic, in bytes, at which markers and Kafka's own ends of transactions find room.
_LEAST_LIMIT: Final = 1_000


def require_fitting(definition: FeedDefinition, targets: Sequence[FeedTarget], admin: TopicAdmin) -> None:
    """Check the topics of a feed that has begun. Topics that ``admin``'s cluster does not have pass. Blocks.

    Raises ``FeedError`` for a topic that cannot be the feed's, ``TopologyError`` for one that cannot be
    looked at, ``RetryError`` for a cluster that does not answer.
    """
    for target in targets:
        if (found := admin.partitions(target.topic)) is not None:
            require_as_it_was(definition, target, found, admin)
            require_room(definition.options, target.topic, admin)
    aside = definition.options.resolved_topic
    if aside and (found := admin.partitions(aside)) is not None:
        require_marker_topic(aside, targets, found, admin)


def require_as_it_was(definition: FeedDefinition, target: FeedTarget, found: int, admin: TopicAdmin) -> None:
    """Check a topic with ``found`` partitions that the feed is to write to.

    Raises as ``require_fitting`` does.
    """
    if found != target.partitions:
        raise FeedError(
            f"the topic {target.topic} has {found} partitions there, and the feed has {target.partitions}: "
            f"keys would change partitions. Delete it there, and tidegate creates it with {target.partitions}"
        )
    require_place_for_markers(definition.options, target.topic, admin)


def require_place_for_markers(options: FeedOptions, topic: str, admin: TopicAdmin) -> None:
    """Check that the topic accepts the markers that stand among rows. Raises as ``require_fitting`` does."""
    if options.resolved_interval_ns is None or options.resolved_topic:
        return
    _require_least_limit(topic, admin)
    if _is_compacted(topic, admin):
        raise FeedError(
            f"the topic {topic} has cleanup.policy=compact, and Kafka refuses records without a key there, "
            "which resolved markers are; send them to a topic of their own by the option resolved_topic, "
            "create the feed without the option resolved, or let the topic delete"
        )


def require_room(options: FeedOptions, topic: str, admin: TopicAdmin) -> None:
    """If the feed leaves out rows that are too large, check that the topic accepts every other row.

    Raises as ``require_fitting`` does. The topic's limit is for batches, so the largest batch of a producer
    has to fit too.
    """
    if options.on_oversize is not OnOversize.KEY_ONLY:
        return
    needed = max(options.max_row_bytes, BATCH_BYTES) + RECORD_ROOM
    limit = int(admin.config(topic)["max.message.bytes"])
    if limit < needed:
        raise FeedError(
            f"the topic {topic} has max.message.bytes={limit}, and the feed needs {needed} there: batches "
            f"have up to {BATCH_BYTES} bytes, its rows up to {options.max_row_bytes} (max_row_bytes), and "
            "some bytes stand around them; raise the topic's limit"
        )


def require_marker_topic(topic: str, targets: Sequence[FeedTarget], found: int, admin: TopicAdmin) -> None:
    """Check the topic of the feed's markers, with ``found`` partitions.

    Raises as ``require_fitting`` does.
    """
    needed = marker_partitions(targets)
    if found != needed:
        raise FeedError(
            f"the resolved_topic {topic} has {found} partitions, and the feed needs {needed} there, as many "
            "as the greatest of its topics has: give it that number, or name a topic that does not exist yet"
        )
    _require_least_limit(topic, admin)
    if _is_compacted(topic, admin):
        raise FeedError(
            f"the resolved_topic {topic} has cleanup.policy=compact, and Kafka refuses records without a key "
            "there, which markers are; let the topic delete, or name one that does not exist yet"
        )


def _require_least_limit(topic: str, admin: TopicAdmin) -> None:
    """Check that Kafka can end a transaction of markers there. With a lower limit nobody could end the
    feed."""
    limit = int(admin.config(topic).get("max.message.bytes") or _LEAST_LIMIT)
    if limit < _LEAST_LIMIT:
        raise FeedError(
            f"the topic {topic} has max.message.bytes={limit}, where markers find no room; raise it to "
            f"{_LEAST_LIMIT} at least"
        )


def _is_compacted(topic: str, admin: TopicAdmin) -> bool:
    return "compact" in admin.config(topic).get("cleanup.policy", "")
