"""The border between a processor and a kernel that follows the log: native code that takes plain records.

The processor owns all state. For a batch it gives the kernel the records, and then the state that these
records need: the ranges and the open transactions that they name, and the log clock. The kernel follows the
longest *plain* prefix, and gives back what has changed, and the rows. It keeps nothing. So a record that it
refuses leaves no trace, and a kernel that breaks loses nothing. ``processor/plain_records.py`` is the
processor's side; ``tidegate/kernel`` has the one kernel there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidegate.hlc import Timestamp
from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.row_kernel import Taken
from tidegate.processor.log_clock import ClockReading
from tidegate.raftlog.entry import Generation, Heartbeat, RaftIndex, RangeId, TxnId
from tidegate.ranges.version import Version
from tidegate.spans import Span


class Named(NamedTuple):
    """The ranges and transactions that a batch names, in its first ``records`` records: only those can be
    read.

    Ranges and transactions are in the order in which they are named first. Their places here are their
    numbers. ``txn_ranges`` has for each transaction the number of its range.
    """

    records: int
    range_ids: Sequence[RangeId]
    txn_ids: Sequence[TxnId]
    txn_ranges: Sequence[int]


class PlainRange(NamedTuple):
    """A plain range as it is before a batch.

    ``beside`` is the oldest of its open transactions that the batch does not name.
    """

    generation: Generation
    applied: RaftIndex
    closed: Timestamp
    resolved: Timestamp
    high: Timestamp
    pending: Heartbeat | None
    beside: tuple[Timestamp, TxnId] | None
    span: Span


class NumberedTxn(NamedTuple):
    """A transaction that is open before a batch, by its number. ``has_anchor``: its anchor key is known."""

    number: int
    refs: int
    timestamp: Timestamp
    has_anchor: bool


class LogState(NamedTuple):
    """The state with which a kernel follows a batch. ``ranges`` has ``None`` for each that is not plain."""

    clock: ClockReading
    believed: int
    ranges: Sequence[PlainRange | None]
    txns: Sequence[NumberedTxn]


class Closing(NamedTuple):
    """A closed timestamp that counts once the range has applied index ``covers``."""

    covers: RaftIndex
    closed: Timestamp


class MovedRange(NamedTuple):
    """A range that a batch has touched, by its number, as it is now.

    If it ``pends_anew``, ``pending`` takes the place of the heartbeat that was pending before the batch;
    ``None``: none is pending now. ``regressions`` is how often its closed timestamp would have fallen in the
    batch. ``heard_ms`` is the elapsed log time at its last record.
    """

    number: int
    applied: RaftIndex
    closed: Timestamp
    resolved: Timestamp
    high: Timestamp
    pends_anew: bool
    pending: Closing | None
    regressions: int
    heard_ms: int


class Anchor(NamedTuple):
    """The anchor key of a transaction, and its least timestamp."""

    key: bytes
    min_timestamp: Timestamp


class MovedTxn(NamedTuple):
    """A transaction that a batch has changed, by its number, as it is now. It has ended if ``refs`` is 0.

    ``dropped``: it was forgotten in the batch, and may have come again. ``anchor`` is ``None`` if the batch
    does not tell it.
    """

    number: int
    dropped: bool
    refs: int
    timestamp: Timestamp
    anchor: Anchor | None


class Followed(NamedTuple):
    """The result of following a batch: the kernel took ``taken`` records.

    ``ranges`` are in the order in which they were touched, and new transactions in that in which they were
    opened. ``places`` has record and ordinal of each version, and ``rows`` refers to versions by their
    indexes in ``places``. The text of all rows has ``size`` bytes.
    """

    taken: int
    clock: ClockReading
    believed: int
    high: Timestamp
    ranges: Sequence[MovedRange]
    txns: Sequence[MovedTxn]
    places: Sequence[tuple[int, int]]
    rows: Taken
    size: int


class LogKernel(Protocol):
    """A kernel of one log partition that follows its log."""

    def read(self, records: Sequence[LogRecord]) -> Named | None:
        """Read the next records, by the present plan. ``None``: Python has to take them."""

    def follow(self, state: LogState) -> Followed | None:
        """Follow the records that were read last. ``None``: Python has to take them."""

    def versions(self) -> Sequence[Version] | None:
        """Return the committed versions of the batch that was followed last: those at ``Followed.places``.

        Call it before anything else is read or followed. If it returns ``None``, Python has to read the
        versions in the records.
        """
