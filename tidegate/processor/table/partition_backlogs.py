"""The backlogs of a log partition's ranges: which wait for something, and which can be applied."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.processor.batch import LogRecord
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.backlog import Backlog, MemoryQueue, QueueFactory, RawEntry
from tidegate.ranges.handoff import Claim


class Backlogs:
    """By range. Those that wait for nothing are ``ready``, in the order in which they are applied."""

    def __init__(self, queue: QueueFactory | None) -> None:
        self._new_queue: QueueFactory = queue or (lambda _: MemoryQueue())
        self._backlogs: dict[RangeId, Backlog] = {}
        self._ready: dict[RangeId, None] = {}
        #: Claims that backlogs had left out when they were forgotten, and that are still to be sent.
        self._skipped: list[Claim] = []

    def __contains__(self, range_id: RangeId) -> bool:
        return range_id in self._backlogs

    def __getitem__(self, range_id: RangeId) -> Backlog:
        return self._backlogs[range_id]

    def get(self, range_id: RangeId) -> Backlog | None:
        """The backlog of a range that has one."""
        return self._backlogs.get(range_id)

    def items(self) -> Iterable[tuple[RangeId, Backlog]]:
        """Those of all ranges that have one, in the order in which they fell behind."""
        return self._backlogs.items()

    @property
    def ready(self) -> bool:
        """Whether any can be applied."""
        return bool(self._ready)

    def first_ready(self) -> RangeId:
        """The range whose backlog is applied next; there must be one."""
        return next(iter(self._ready))

    def hold(self, range_id: RangeId, record: LogRecord) -> Backlog:
        """The backlog of a range that has to wait, which begins with ``record`` if there was none."""
        backlog = self._backlogs.get(range_id)
        if backlog is None:
            backlog = self._backlogs[range_id] = Backlog(self._new_queue(range_id))
            backlog.queue.append(raw_entry(record))
        self._ready.pop(range_id, None)
        return backlog

    def let_go_on(self, range_id: RangeId) -> None:
        """The backlog of a range can be applied."""
        self._ready[range_id] = None

    def clear(self, range_id: RangeId) -> None:
        """The range waits for nothing more."""
        self._backlogs[range_id].clear()
        self._ready[range_id] = None

    def take_skipped(self) -> list[Claim]:
        """The claims that snapshots told of which were left out since the last call."""
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
    """A record as backlogs keep it."""
    return RawEntry(record.offset, record.key, record.value, record.timestamp)
