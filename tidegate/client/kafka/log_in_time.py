"""Reads all partitions of a log side by side, in the order of their record times.

So records that belong together in two partitions, such as those of a split or a merge, come close together,
however unevenly the brokers answer. Within a partition the order is the log's, even if record times fall.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.reader import POLL_S, PartitionReader
from tidegate.verify import TopicPartition, TopicRecord

#: A partition with this many waiting records is not fetched any further until all of them were taken.
_AHEAD: Final = 5_000


def read_in_time(
    connection: KafkaConnection, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[TopicRecord]:
    """Yield the committed records from ``starts`` up to ``ends``, the oldest of all partitions first.

    Raises ``BrokerUnavailable`` when nothing comes for the connection's timeout, ``InputError`` for records
    that are deleted meanwhile.
    """
    wanted = {place: start for place, start in starts.items() if start < ends[place]}
    if not wanted:
        return
    with PartitionReader(connection, wanted) as reader:
        yield from _Merge(connection, reader, wanted, ends).records()


class _Merge:
    """Holds the records that have come, by partition, and yields them in the order of time."""

    def __init__(
        self,
        connection: KafkaConnection,
        reader: PartitionReader,
        places: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._ends = ends
        self._held: dict[TopicPartition, deque[TopicRecord]] = {place: deque() for place in places}
        #: The time that each partition has reached. It does not fall when record times do.
        self._times = dict.fromkeys(places, 0)
        self._unread = set(places)
        self._paused: set[TopicPartition] = set()

    def records(self) -> Iterator[TopicRecord]:
        """Yield all records in the order of time. Raises ``BrokerUnavailable``."""
        silent_s = 0.0
        while True:
            place = self._next()
            if place is not None:
                yield self._pop(place)
            elif not self._held:
                return
            else:
                silent_s = 0.0 if self._fetch() else silent_s + POLL_S
                if silent_s > self._connection.timeout_s:
                    raise self._connection.away("reading records", self._reader.last_error)

    def _next(self) -> TopicPartition | None:
        """Return the partition whose next record is the oldest; ``None`` while an older one may still
        come.
        """
        for place in [place for place, held in self._held.items() if not held and place not in self._unread]:
            del self._held[place]
        if not self._held or any(not held for held in self._held.values()):
            return None
        return min(self._held, key=self._time_of)

    def _time_of(self, place: TopicPartition) -> int:
        return max(self._times[place], self._held[place][0].timestamp_ms)

    def _pop(self, place: TopicPartition) -> TopicRecord:
        self._times[place] = self._time_of(place)
        record = self._held[place].popleft()
        if place in self._paused and not self._held[place]:
            self._paused.discard(place)
            self._reader.resume(place)
        return record

    def _fetch(self) -> bool:
        """Take in the records that have come; return whether any have."""
        unread, records = len(self._unread), self._reader.poll()
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            if record.offset < self._ends[place]:
                self._held[place].append(record)
        for place in list(self._unread):
            if self._reader.positions[place] >= self._ends[place]:
                self._unread.discard(place)
        for place, held in self._held.items():
            if len(held) >= _AHEAD and place not in self._paused:
                self._paused.add(place)
                self._reader.pause(place)
        return bool(records) or len(self._unread) < unread
