"""Kafka's classes as its JVM keeps them in memory, in a file for all brokers of one run of the tests.

A broker reads, checks and links thousands of classes when it starts. When the JVM ends, it can write down the
classes as it has prepared them (class data sharing), and the next JVM begins with these. To format, start and
stop a broker takes 2.7 s of processor time with them, and 4.5 s without. To make the file takes 9 s.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Final

from stack.errors import StackError
from stack.processes.child import Child
from stack.processes.launch import launch
from stack.processes.server import Request
from stack.recipes.kafka_recipe import Kafka

_LOOK_AGAIN_S: Final = 0.1
#: The exit status of a JVM that was asked to end, and has written all that it had to write.
_ENDED: Final = 128 + signal.SIGTERM


class ClassArchive:
    """An archive of classes. A broker that is started only for this writes it when it ends. Tests that run
    meanwhile start their brokers without it.

    The JVM maps the file into memory, and dies if the file is cut short. So the file gets its name only when
    it is whole.

    Attributes:
        file: where it stands once it is whole; nothing stands there before.
        fault: why it could not be made, once that is known; empty before.
    """

    def __init__(self, home: Path) -> None:
        """Prepare one in ``home``, a directory that nobody else may write to."""
        self.file = home / "kafka-classes.jsa"
        self.fault = ""
        self._home = home / "archived"
        self._unwanted = Event()
        self._making = Thread(target=self._make, daemon=True)

    def begin(self) -> None:
        """Start to make the archive, in the background."""
        self._making.start()

    def close(self) -> None:
        """Stop making it. Returns when no broker is left; the file stays."""
        self._unwanted.set()
        if self._making.is_alive():
            self._making.join()

    def _make(self) -> None:
        unfinished = self._home / "classes.jsa"
        try:
            if self._written(unfinished):
                unfinished.rename(self.file)
            elif not self._unwanted.is_set():
                self.fault = "its broker ended in another way than by SIGTERM, or left no archive behind"
        except (StackError, OSError) as error:  # brokers start without it
            self.fault = str(error)

    def _written(self, file: Path) -> bool:
        """Whether a broker has started, ended and written all of ``file``."""
        plan = Kafka().plan(Request(self._home, self._home / "data"))
        java, *arguments = plan.command
        writing = replace(plan, command=(java, f"-XX:ArchiveClassesAtExit={file}", *arguments))
        broker = launch(Kafka(), writing, leashed=True)
        try:
            return self._status(broker) == _ENDED and file.is_file()
        finally:
            broker.kill()

    def _status(self, broker: Child) -> int | None:
        """Ask the broker to end, and return its exit status. Return ``None`` if the file is not wanted any
        more before the broker ends."""
        os.kill(broker.pid, signal.SIGTERM)
        while broker.exit_status is None and not self._unwanted.wait(_LOOK_AGAIN_S):
            continue
        return broker.exit_status
