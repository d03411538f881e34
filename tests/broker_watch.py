"""Ends a run whose broker has stopped answering: hundreds of tests would each wait minutes for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Final

from stack.errors import ServerFailed
from stack.kafka import KafkaBroker
from stack.ports import accepts_connections

_LOOK_S: Final = 20.0
#: A broker of a busy machine may accept nothing for some seconds.
_SILENT_S: Final = 150.0
_DUMP_S: Final = 10.0
_LOG_BYTES: Final = 60_000


class BrokerWatch:
    """A thread that checks from time to time whether a broker accepts connections."""

    def __init__(
        self,
        broker: KafkaBroker,
        end: Callable[[str], None],
        look_s: float = _LOOK_S,
        silent_s: float = _SILENT_S,
    ) -> None:
        """``end`` is called once, with a text that says what is known, when the broker has been silent for
        ``silent_s``."""
        self._broker = broker
        self._end = end
        self._look_s = look_s
        self._silent_s = silent_s
        self._closed = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        answered = monotonic()
        while not self._closed.wait(self._look_s):
            if accepts_connections(self._broker.address):
                answered = monotonic()
            elif monotonic() - answered > self._silent_s:
                self._end(self._report())
                return

    def _report(self) -> str:
        """Return a sentence and the end of the broker's log, which says what the broker's threads do."""
        log = self._broker.log
        size = log.stat().st_size
        with suppress(ServerFailed, OSError):  # the broker has ended
            os.kill(self._broker.pid, signal.SIGQUIT)  # Java writes its threads and its heap to the log
            asked = monotonic()
            while log.stat().st_size == size and monotonic() - asked < _DUMP_S:
                self._closed.wait(_DUMP_S / 20)
        self._closed.wait(_DUMP_S / 20)
        end = log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
        return (
            f"The broker of all tests at {self._broker.address} has accepted no connection for "
            f"{self._silent_s:.0f} s, so the run ends. The end of its log:\n{end}"
        )
