"""Logs an alarm while rows wait too long for their acknowledgement, or a step takes too long. Rows never
expire (docs/protocols/rows.md)."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import structlog

from tidegate.worker.operations.report import PartitionReport, Reporter
from tidegate.worker.process.ending import guarded_task

_LOOK_S: Final = 1.0
_REPEAT_S: Final = 60.0

_log = structlog.get_logger("tidegate.stall")


def start_stall_alarm(report: Reporter) -> asyncio.Task[None]:
    """Begin to watch; cancel the task to stop. An alarm that fails ends the process, so it is noticed."""
    return guarded_task(watch_for_stalls(report), "stall alarm")


async def watch_for_stalls(report: Reporter) -> None:
    """Log each stuck partition at once and then every minute, until cancelled."""
    told: dict[int, float] = {}
    while True:
        await asyncio.sleep(_LOOK_S)
        found = report()
        stuck = {partition.partition: partition for partition in found.stuck}
        for number in told.keys() - stuck.keys():
            _log.info("rows are acknowledged again", partition=number)
            del told[number]
        for number, partition in stuck.items():
            if time.monotonic() - told.get(number, -_REPEAT_S) >= _REPEAT_S:
                told[number] = time.monotonic()
                _tell(partition, found.stall_alarm_ms)


def _tell(partition: PartitionReport, alarm_ms: int) -> None:
    if partition.step_ms > alarm_ms:
        _log.error(
            "a step takes long, and the partition's feeds wait for it; please report it with its records",
            partition=partition.partition,
            step_ms=partition.step_ms,
            records=partition.step_of,
        )
        return
    _log.error(
        "rows wait for their acknowledgement; nothing is lost, nothing goes on",
        partition=partition.partition,
        waiting_ms=partition.oldest_unacknowledged_ms,
        rows=partition.inflight_rows,
    )
