"""Reads the log topic from a place that people name: its beginning, an offset, or a timestamp."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

from tidegate.client.kafka.cluster import Bounds, Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import InputError
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.verify import TopicPartition, TopicRecord

#: The most that the clocks of the store may differ. The record time of a version may be this much lower than
#: its timestamp.
MAX_CLOCK_OFFSET_MS: Final = 500
#: A number from here on means nanoseconds since 1970, and no offset. It is eleven days after the beginning of
#: 1970.
_LOWEST_WALL_NS: Final = 10**15


class LogBegin(NamedTuple):
    """A place to begin: an offset of each partition, or the versions above a timestamp.

    Without either it is the beginning of the log.
    """

    offset: int | None = None
    above: Timestamp | None = None


def parse_begin(text: str) -> LogBegin:
    """Read ``beginning``, an offset, or a timestamp in the form of cursors.

    Raises ``ValueError``, which says what the text may be.
    """
    if text == "beginning":
        return LogBegin()
    try:
        timestamp = parse_decimal(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no place in a log: give beginning, an offset, or a timestamp "
            "(nanoseconds since 1970, with a logical part behind a dot or without)"
        ) from None
    if "." in text or timestamp.wall >= _LOWEST_WALL_NS:
        return LogBegin(above=timestamp)
    return LogBegin(offset=timestamp.wall)


def read_log(
    connection: KafkaConnection,
    topic: str,
    begin: LogBegin,
    *,
    partitions: Sequence[int] = (),
    follow: bool = False,
) -> Generator[TopicRecord, None, None]:
    """Yield the records of ``partitions``, by default of all. Without ``follow`` stop at their present ends.

    If it begins at a timestamp, it starts at the record time 500 ms before that, since clocks may differ. So
    some versions below the timestamp come too. Records of different partitions come in no order. Raises
    ``InputError`` for a topic or partition that does not exist and for records that are deleted,
    ``BrokerUnavailable`` when Kafka does not answer.
    """
    cluster = Cluster(connection)
    places = _places(topic, cluster.partition_counts([topic])[topic], partitions)
    bounds = cluster.bounds(places)
    starts = _starts(cluster, bounds, begin)
    ends = {place: each.end for place, each in bounds.items() if starts[place] < each.end}
    if not ends and not follow:
        return
    with PartitionReader(connection, starts) as reader:
        if not follow:
            yield from reader.read_to(ends)
            return
        while True:
            yield from reader.poll()


def _places(topic: str, count: int, partitions: Sequence[int]) -> list[TopicPartition]:
    for partition in partitions:
        if partition >= count:
            raise InputError(f"Topic {topic} has {count} partitions; there is no partition {partition}.")
    return [TopicPartition(topic, partition) for partition in partitions or range(count)]


def _starts(
    cluster: Cluster, bounds: Mapping[TopicPartition, Bounds], begin: LogBegin
) -> dict[TopicPartition, int]:
    if begin.above is not None:
        found = cluster.offsets_at(bounds, begin.above.wall_ms - MAX_CLOCK_OFFSET_MS)
        return {place: min(offset, bounds[place].end) for place, offset in found.items()}
    if begin.offset is None:
        return {place: each.low for place, each in bounds.items()}
    for place, each in bounds.items():
        if begin.offset < each.low:
            raise InputError(
                f"Offset {begin.offset} of {place} is deleted: its first record is at {each.low}. Begin "
                "there or later."
            )
    return {place: min(begin.offset, each.end) for place, each in bounds.items()}
