"""The backlogs of a log partition's ranges: which ranges wait, and which backlogs can be applied."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.processor.batch import LogRecord
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.backlog import Backlog, MemoryQueue, QueueFactory, RawEntry
from tidegate.ranges.handoff import Claim


class Backlogs:
    """The backlogs of one log partition, by range. A backlog is ready when its range waits for nothing.

    Ready backlogs are applied in turns. They shrink while the log goes on, since twice as many bytes are
    taken out of them as are put in.
    """

    def __init__(self, queue: QueueFactory | None) -> None:
        self._new_queue: QueueFactory = queue or (lambda _: MemoryQueue())
        self._backlogs: dict[RangeId, Backlog] = {}
        self._ready: dict[RangeId, None] = {}
        #: Claims that are still to be sent: those of snapshots that were left out of backlogs that are
        #: dropped now.
        self._skipped: list[Claim] = []
        #: The bytes to take out of ready backlogs before more of the log is read.
        self._owed_bytes = 0

    def __contains__(self, range_id: RangeId) -> bool:
        return range_id in self._backlogs

    def __getitem__(self, range_id: RangeId) -> Backlog:
        return self._backlogs[range_id]

    def get(self, range_id: RangeId) -> Backlog | None:
        """Return the backlog of a range, ``None`` if it has none."""
        return self._backlogs.get(range_id)

    def items(self) -> Iterable[tuple[RangeId, Backlog]]:
        """Return all backlogs with their ranges, in the order in which the ranges fell behind."""
        return self._backlogs.items()

    @property
    def ready(self) -> bool:
        """Whether any backlog can be applied."""
        return bool(self._ready)

    def next_ready(self) -> RangeId:
        """Return the range whose turn it is to apply its backlog. At least one backlog must be ready."""
        range_id = next(iter(self._ready))
        self._ready[range_id] = self._ready.pop(range_id)
        return range_id

    @property
    def come_first(self) -> bool:
        """Whether ready backlogs are to be applied before more of the log is read.

        Otherwise the backlog of a busy range might grow with each step, as long as the partition is behind
        its log.
        """
        return bool(self._ready) and self._owed_bytes > 0

    def note_put_off(self, range_id: RangeId, entry_bytes: int) -> None:
        """Note that an entry of ``entry_bytes`` bytes was put into a backlog."""
        if range_id in self._ready:
            self._owed_bytes += 2 * entry_bytes

    def note_applied(self, entry_bytes: int) -> None:
        """Note that entries of ``entry_bytes`` bytes were taken out of a ready backlog."""
        self._owed_bytes = max(0, self._owed_bytes - entry_bytes)

    def hold(self, range_id: RangeId, record: LogRecord) -> Backlog:
        """Return the range's backlog, and take the range out of those that are ready.

        If the range has none, make one with ``record`` as its first entry. An existing one does not get
        ``record``.
        """
        backlog = self._backlogs.get(range_id)
        if backlog is None:
            backlog = self._backlogs[range_id] = Backlog(self._new_queue(range_id), raw_entry(record))
        self._ready.pop(range_id, None)
        return backlog

    def let_go_on(self, range_id: RangeId) -> None:
        """Make the backlog of a range ready to be applied."""
        self._ready[range_id] = None

    def clear(self, range_id: RangeId) -> None:
        """End the wait of a range, and make its backlog ready."""
        self._backlogs[range_id].clear()
        self._ready[range_id] = None

    def take_skipped(self) -> list[Claim]:
        """Return the claims of the snapshots that backlogs have left out since the last call."""
        skipped, self._skipped = self._skipped, []
        for backlog in self._backlogs.values():
            if backlog.skipped:
                skipped += backlog.skipped
                backlog.skipped = []
        return skipped

    def drop(self, range_id: RangeId) -> None:
        """Forget the backlog of a range."""
        backlog = self._backlogs.pop(range_id)
        self._skipped += backlog.skipped
        backlog.queue.close()
        self._ready.pop(range_id, None)


def raw_entry(record: LogRecord) -> RawEntry:
    """Return a record in the form in which backlogs keep it."""
    return RawEntry(record.offset, record.key, record.value, record.timestamp)
