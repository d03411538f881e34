"""The process around the application: signals and logs."""

from __future__ import annotations

import gc
import resource
from typing import Any, Final

import faust

from tidegate.access.private_files import keep_files_private

#: Batches make and drop many small objects, none of them in cycles: looking for cycles after every 700 of
#: them, as Python does by default, took a quarter of the throughput (`make bench`, end to end).
_GC_THRESHOLDS: Final = (50_000, 20, 100)


class BatchWorker(faust.Worker):
    """Faust's worker without its terminal effects and its own configuration of logs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(
            *args, **{**kwargs, "override_logging": False, "redirect_stdouts": False, "quiet": True}
        )
        self.spinner = None
        keep_files_private()
        _allow_open_files()
        gc.freeze()  # what was imported stays: never look at it again
        gc.set_threshold(*_GC_THRESHOLDS)


def _allow_open_files() -> None:
    """Take as many open files as the system grants: a log partition needs about fourteen, and the usual
    1,024 are used up by 64 of them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
