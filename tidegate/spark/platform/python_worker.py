"""Settings of the Python process that runs tasks, one after the other, for as long as Spark keeps it."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final
from zipimport import zipimporter

#: Batches make and drop many small objects, and none of these are in cycles (as in app/worker.py).
_GC_THRESHOLDS: Final = (50_000, 20, 100)


@cache
def settle_process() -> None:
    """Spare a Python worker needless work. Only the first call does something.

    The garbage collector need not look at what was imported, since that stays. Before every task Spark makes
    Python forget what it knows of its path. For PySpark's archive and Spark's jars Python then reads their
    tables of contents again, once for each package in them: a quarter of a second of processor time. So
    archives are not forgotten here.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter):
            finder.invalidate_caches = _forget_nothing  # type: ignore[method-assign]


def _forget_nothing() -> None:
    """Do nothing, in place of forgetting an archive's table of contents."""
