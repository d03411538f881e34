"""Pauses of partitions that are far ahead of the others: they are not read for a while.

Rows of a partition wait until all partitions have reached their timestamps. While a subscription catches up,
brokers give many records of one partition before those of the next, so its rows would fill the memory. A
partition that is ahead is paused when many of its rows wait, and read again when half of them are gone. The
partition with the lowest marker is never paused, so reading always goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import RowGate

ROWS_AHEAD: Final = 10_000


class PartitionPauses:
    """The paused partitions of one gate."""

    __slots__ = ("_gate", "_paused", "_places", "_rows_ahead")

    def __init__(self, gate: RowGate, places: Iterable[FeedPartition], rows_ahead: int = ROWS_AHEAD) -> None:
        self._gate = gate
        self._places = tuple(places)
        self._rows_ahead = rows_ahead
        self._paused: frozenset[FeedPartition] = frozenset()

    def now(self) -> frozenset[FeedPartition]:
        """Return the partitions to pause from now on; all others are to be read."""
        gate, paused = self._gate, self._paused
        self._paused = frozenset(
            place
            for place in self._places
            if gate.waiting_of(place) > (self._rows_ahead // 2 if place in paused else self._rows_ahead)
            and gate.is_ahead(place)
        )
        return self._paused
