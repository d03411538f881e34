"""The process around the application: Faust's worker, its garbage collection and its limits."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, Final

import faust

from tidegate.access.private_files import keep_files_private
from tidegate.client.kafka.client_room import allow_open_files

#: Batches make and drop many small objects, none of them in cycles. By default Python looks for cycles after
#: every 700 of them, and that took a quarter of the throughput (`make bench`, end to end).
_GC_THRESHOLDS: Final = (50_000, 20, 100)
_CANCELLED_S: Final = 1.0


class BatchWorker(faust.Worker):
    """Faust's worker without its terminal effects and its own configuration of logs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(
            *args, **{**kwargs, "override_logging": False, "redirect_stdouts": False, "quiet": True}
        )
        self.spinner = None
        keep_files_private()
        allow_open_files()
        gc.freeze()  # imported objects stay for ever: collections need not look at them
        gc.set_threshold(*_GC_THRESHOLDS)

    async def _sentinel_task(self) -> None:
        """Wait a second at most for tasks that were cancelled. Faust would always wait for a whole second.

        Nothing runs in the loop after this. Everything in flight is durable by then.
        """
        cancelled = asyncio.all_tasks() - {asyncio.current_task()}
        if cancelled:
            await asyncio.wait(cancelled, timeout=_CANCELLED_S)
