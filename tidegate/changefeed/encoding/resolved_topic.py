"""Markers on a topic of their own, the feed's ``resolved_topic`` (docs/protocols/resolved-topic.md).

The marker for partition p names the end of partition p of every topic of the feed that has such a partition:
all rows of these partitions at or below its timestamp stand below that end. It is JSON in every format and
envelope, without spaces and with its members in the order of their names, as the printer of markers among
rows writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.changefeed.definition.names import TOPIC_NAME_LIMIT, is_topic_name
from tidegate.changefeed.encoding.quoted import quoted_error, quoted_record
from tidegate.changefeed.encoding.record import Headers, MarkerRecord
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, parse_decimal


def resolved_topic_fault(name: str, row_topics: Iterable[str]) -> str:
    """Return why ``name`` cannot be the ``resolved_topic`` of a feed with these topics of rows.

    Return an empty text if it can.

    The name is not escaped, since it is no SQL name: users have to find the topic under the name they gave.
    """
    if not is_topic_name(name):
        return (
            f"this resolved_topic is a text that Kafka does not take as the name of a topic: give it 1 to "
            f"{TOPIC_NAME_LIMIT} letters, digits, '.', '_' and '-'"
        )
    if name in row_topics:
        return f"resolved_topic is {name}, and the feed writes rows there: name a topic that has none"
    return ""


def marker_partitions(targets: Sequence[FeedTarget]) -> int:
    """Return the partition count of the ``resolved_topic``: the largest one among the feed's topics."""
    return max(target.partitions for target in targets)


def topics_with(partition: int, targets: Sequence[FeedTarget]) -> list[str]:
    """Return the topics whose ends the markers for this partition name."""
    return [target.topic for target in targets if target.partitions > partition]


def offset_marker_value(resolved: ResolvedTimestamp, offsets: Mapping[str, int]) -> bytes:
    """Return the marker's value: ``{"offsets":{"orders":1234},"resolved":"1.0000000002"}``.

    Raises ``ValueError`` for zero, as ``marker_value`` does.
    """
    if resolved.wall <= 0:
        raise ValueError(f"a marker cannot say {resolved.decimal()}: nothing is resolved yet")
    members = {"offsets": offsets, "resolved": resolved.decimal()}
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


class OffsetMarkerDecoder:
    """Reads the records of a ``resolved_topic``."""

    __slots__ = ()

    @property
    def tombstones(self) -> bool:
        """Return false: a ``resolved_topic`` has no deletions."""
        return False

    def decode(self, key: bytes | None, value: bytes | None, _: Headers = ()) -> MarkerRecord:
        """Read one marker. Raises ``MalformedRecord`` for bytes that no feed can have written there."""
        try:
            return _decoded(key, value)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise MalformedRecord(
                f"not a marker with offsets ({quoted_error(error)}): {quoted_record(key, value)}"
            ) from None


def _decoded(key: bytes | None, value: bytes | None) -> MarkerRecord:
    if key is not None or value is None:
        raise ValueError("a marker has a value and no key")
    members = json.loads(value)
    offsets = dict(members["offsets"].items())
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError("an offset is a number that is not negative")
    return MarkerRecord(ResolvedTimestamp(parse_decimal(members["resolved"])), offsets)
