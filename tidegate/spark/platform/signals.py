"""Turns SIGINT and SIGTERM into an event, so that the process finishes its current work before it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """Yield an event that these signals set, for as long as the ``with`` lasts.

    Only the main thread may enter it. Spark's own handler of SIGINT would call Java in the middle of another
    call.
    """
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
