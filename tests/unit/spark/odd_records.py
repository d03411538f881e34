"""Oddities of a log on its way to a query, and of the query's feeds and its store meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.logs import Record
from tests.simulation.odd_logs import WrongTimes, without_end
from tidegate.hlc import ZERO_CLOSED
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import BROADCAST, Command, Heartbeat, Snapshot, Trigger

_UNREADABLE: Final = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class Oddities:
    """The probability of each oddity: for each record, where no other is named.

    ``corrupt``: it cannot be read. ``lose_snapshot`` and ``lose_end``: of those. ``wrong_time``: a few are
    stamped wrongly. ``mutate``: in a batch data changes outside the op log, once more maybe; ``hide``: the
    command that says so cannot be read. ``grow``: of rows, that one is above its limit. ``delete``: in a
    batch, that a topic is deleted. ``end``: in a batch, that a feed is dropped. ``build_index``: in a batch,
    that a table gets another index. ``pause``: in a batch, that nothing is written for a long time.
    ``lose_answer``: of requests to the store. ``takes_over``: a feed comes to the query that another engine
    had until a while ago. ``bystanders``: so many feeds want rows of no range here.
    """

    corrupt: float = 0.0
    lose_snapshot: float = 0.0
    lose_end: float = 0.0
    wrong_time: float = 0.0
    mutate: float = 0.0
    hide: float = 0.5
    grow: float = 0.0
    delete: float = 0.0
    end: float = 0.0
    build_index: float = 0.0
    pause: float = 0.0
    lose_answer: float = 0.2
    takes_over: bool = False
    bystanders: int = 0


class OddRecords:
    """The records of a log's partitions, as they arrive."""

    def __init__(self, oddities: Oddities, partitions: int, rng: Random) -> None:
        self._odd = oddities
        self._rng = rng
        self._times = [WrongTimes(rng, oddities.wrong_time) for _ in range(partitions)]
        #: How many were not as they were written.
        self.changed = 0

    def arriving(self, partition: int, records: Sequence[Record]) -> list[Record]:
        """Return what arrives of these records."""
        came = []
        for record in records:
            arrived = self._arriving(record)
            if self._odd.wrong_time:
                arrived = self._times[partition].stamped(arrived)
            self.changed += arrived != record
            came.append(arrived)
        return came

    def _arriving(self, record: Record) -> Record:
        odd = self._odd
        if record.key == encode_key(BROADCAST):
            return record
        if self._happens(odd.corrupt) or (odd.mutate and _mutates(record) and self._happens(odd.hide)):
            return record._replace(value=_UNREADABLE)
        if self._happens(odd.lose_snapshot):
            return _without_snapshot(record)
        return without_end(record) if self._happens(odd.lose_end) else record

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability


def _mutates(record: Record) -> bool:
    entry = decode_entry(record.key, record.value)
    return isinstance(entry, Command) and entry.trigger in (Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION)


def _without_snapshot(record: Record) -> Record:
    """The record; a Snapshot becomes a heartbeat that closes nothing."""
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, Snapshot):
        return record
    beat = Heartbeat(entry.range_id, entry.generation, ZERO_CLOSED, entry.raft_index)
    return record._replace(value=encode_entry(beat))
