"""Warns before the store removes versions that a feed still misses
(docs/protocols/catch-up.md#what-fails-in-between)."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

import structlog

from tidegate.worker.operations.report import Reporter, WorkerReport
from tidegate.worker.process.ending import guarded_task

_LOOK_S: Final = 5.0
#: A warning is given when less than this part of the first known reserve is left.
_SHARE: Final = 0.1

_log = structlog.get_logger("tidegate.gc")
_Place: TypeAlias = tuple[int, str]


class GcAlarm:
    """An alarm for each feed and partition with missing versions.

    The reserve is how far the missing versions are above the store's GC threshold (``gc_reserve_ms`` of
    ``LaggingReport``). The alarm warns once, and again only after the feed has caught up and misses versions
    anew. Example: the first known reserve was 24 h; it warns when less than 2.4 h are left.
    """

    def __init__(self) -> None:
        self._first: dict[_Place, int] = {}
        self._told: set[_Place] = set()

    def look(self, report: WorkerReport) -> None:
        """Warn of each feed and partition whose reserve has fallen below a tenth of the first known one."""
        reserves = {(item.partition, item.feed): item for item in report.lagging}
        for place in self._first.keys() - reserves.keys():
            del self._first[place]
            self._told.discard(place)
        for place, item in reserves.items():
            left_ms = item.gc_reserve_ms
            if left_ms is None:
                continue
            first_ms = self._first.setdefault(place, left_ms)
            if left_ms < first_ms * _SHARE and place not in self._told:
                self._told.add(place)
                _log.warning(
                    "the store will soon have removed versions that a feed still misses, and the feed will "
                    "fail then: let its sink catch up, or keep history for longer (gc.ttlseconds)",
                    feed=item.feed,
                    partition=item.partition,
                    range_id=item.range_id,
                    complete_to=item.complete_to,
                    left_s=left_ms // 1_000,
                )


def start_gc_alarm(report: Reporter) -> asyncio.Task[None]:
    """Begin to watch; cancel the task to stop."""
    return guarded_task(watch_reserves(report), "GC alarm")


async def watch_reserves(report: Reporter) -> None:
    """Look every few seconds, until cancelled."""
    alarm = GcAlarm()
    while True:
        await asyncio.sleep(_LOOK_S)
        alarm.look(report())
