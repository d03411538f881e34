"""Makes Python's cycle collector run rarely while a batch is made.

For a batch thousands of rows are made, and none of them is part of a cycle. By default the collector runs
after each 700 new objects, and looks at all that are there. That took half of a subscription's processor
time. While a batch is made, the collector runs only after many more new objects. It is not switched off: a
query may take long, and other threads of the process make cycles.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: The number of new objects that may be part of a cycle, after which the slowed collector runs.
_RARELY: Final = 200_000


class _Slowdowns:
    """The slowdowns of all threads. The last one that ends sets the threshold back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before = gc.get_threshold()

    def begin(self) -> None:
        """Make the collector run rarely."""
        with self._lock:
            if not self._count:
                self._before = gc.get_threshold()
                gc.set_threshold(max(_RARELY, self._before[0]), *self._before[1:])
            self._count += 1

    def end(self) -> None:
        """Make the collector run as before, unless another thread still slows it down."""
        with self._lock:
            self._count -= 1
            if not self._count:
                gc.set_threshold(*self._before)


_SLOWDOWNS: Final = _Slowdowns()


@contextmanager
def collector_slowed() -> Iterator[None]:
    """Make the collector run rarely within a ``with``, even if another thread's ``with`` ends meanwhile.

    A collector that is off, or whose threshold is 0, stays as it is.
    """
    if not gc.isenabled() or not gc.get_threshold()[0]:
        yield
        return
    _SLOWDOWNS.begin()
    try:
        yield
    finally:
        _SLOWDOWNS.end()
