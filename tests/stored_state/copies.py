"""Local copies of a worker's state that have lain for long."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from tables import TABLES
from tidegate.worker.state.store import OpenStore, rocks_stores


def renew_copies(directory: Path, partitions: Iterable[int]) -> OpenStore:
    """Make the copies below a directory as if they had been written just now; return what opens them.

    A worker does not use a copy that is older than a few days.
    """
    open_store = rocks_stores(TABLES)
    for number in partitions:
        store = open_store(directory / f"partition-{number}")
        store.write((), {}, time.time_ns() // 1_000_000)
        store.close()
    return open_store
