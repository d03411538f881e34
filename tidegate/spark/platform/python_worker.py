"""The Python process that runs tasks, one after the other, for as long as Spark keeps it."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final
from zipimport import zipimporter

#: Batches make and drop many small objects, none of them in cycles (as in app/worker.py).
_GC_THRESHOLDS: Final = (50_000, 20, 100)


@cache
def settle_process() -> None:
    """Once in a Python worker: what was imported stays, so the garbage collector need never look at it.

    And archives stay as they are. Spark has Python forget before every task what it knows of its path, and
    for PySpark's archive and Spark's jars that is to read their tables of contents again, once for each
    package in them: a quarter of a second of processor time.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter):
            finder.invalidate_caches = _forget_nothing  # type: ignore[method-assign]


def _forget_nothing() -> None:
    """In place of reading an archive again."""
