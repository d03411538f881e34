"""One broker for all test processes. The process that shares the tests out starts it when the first test
process asks.

A broker takes five seconds of processor time to start, and half a second for each twenty seconds in which
nobody uses it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Lock, Thread
from typing import Final, NoReturn

from stack.errors import StackError
from stack.kafka import KafkaBroker
from tests.broker_watch import BrokerWatch
from tests.class_archive import ClassArchive

#: The directory whose files are in memory, on Linux.
_MEMORY: Final = Path("/dev/shm")
_MEMORY_BYTES: Final = 1 << 30  # far more than the 50 MiB of a run
#: The settings of a broker that nobody kills, so that no start has to wait until a dead broker's session
#: expires. On a busy machine it may send no heartbeat for seconds, and its controller then refuses whatever
#: the tests ask for.
PATIENT: Final = {"broker.session.timeout.ms": "60000"}


class SharedBroker(KafkaBroker):
    """A broker that another process has started, by its address: not to be stopped, frozen or killed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = self.address = bootstrap

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"other tests use this broker: for {name}, start a KafkaBroker of your own")


class BrokerHost:
    """Starts a broker once somebody asks, and stops it when it is closed.

    Attributes:
        address: where `shared_broker` asks, a path.
        archive: the file that brokers of single tests start with, made when the shared one has started.
        checkpoint: the path of a file with which brokers of single tests are formatted. It is taken from the
            shared one when that has started.
    """

    def __init__(self, end_run: Callable[[str], None]) -> None:
        """``end_run`` is called with the reason, once the broker has stopped answering."""
        self._end_run = end_run
        self._watch: BrokerWatch | None = None
        self._home = tempfile.TemporaryDirectory(prefix="tidegate-broker-host-")
        self.archive = ClassArchive(Path(self._home.name))
        self.checkpoint = Path(self._home.name) / "bootstrap.checkpoint"
        self.address = str(Path(self._home.name) / "socket")
        self._listener = Listener(self.address, "AF_UNIX")
        self._starting = Lock()
        self._broker: KafkaBroker | None = None
        self._data: tempfile.TemporaryDirectory[str] | None = None
        Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop the broker, if one was asked for."""
        self._listener.close()
        self.archive.close()
        with self._starting:
            if self._watch is not None:
                self._watch.close()
            if self._broker is not None:
                self._broker.close()
            if self._data is not None:
                self._data.cleanup()
        self._home.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                asking = self._listener.accept()
            except OSError:
                return  # closed
            with asking, suppress(OSError):  # the process that asked may have died
                asking.send(self._answer())

    def _answer(self) -> str | StackError:
        try:
            return self._bootstrap()
        except StackError as error:
            return error

    def _bootstrap(self) -> str:
        with self._starting:
            if self._broker is None:
                self._data = self._data or directory_in_memory()
                data = None if self._data is None else Path(self._data.name) / "data"
                self._broker = KafkaBroker(data=data, settings=PATIENT).__enter__()
                self._keep_checkpoint(self._broker.data)
                self.archive.begin()
                self._watch = BrokerWatch(self._broker, self._end_run)
            return self._broker.bootstrap

    def _keep_checkpoint(self, data: Path) -> None:
        """Copy the checkpoint. The copy gets its name only when it is whole."""
        unfinished = self.checkpoint.with_suffix(".unfinished")
        shutil.copyfile(data / self.checkpoint.name, unfinished)
        unfinished.rename(self.checkpoint)


def directory_in_memory(memory: Path = _MEMORY) -> tempfile.TemporaryDirectory[str] | None:
    """Return a temporary directory in ``memory``; ``None`` if the machine has no such place, or too little
    room there.

    A broker syncs a directory for each partition that it deletes. For the hundreds of topics of the contract
    suite this takes a busy machine more than ten seconds. Meanwhile the broker tells nobody of new topics.
    The call also removes the directories that killed runs have left in ``memory``.
    """
    try:
        room = shutil.disk_usage(memory).free
    except OSError:
        return None
    if room < _MEMORY_BYTES or not os.access(memory, os.W_OK):
        return None
    for left in memory.glob("tidegate-tests-*-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=f"tidegate-tests-{os.getpid()}-", dir=memory)


def shared_broker(host_address: str) -> SharedBroker:
    """The broker of a `BrokerHost`, once it answers. Raises the `StackError` because of which it does not
    start."""
    with Client(host_address, "AF_UNIX") as host:
        answer = host.recv()
    if isinstance(answer, StackError):
        raise answer
    return SharedBroker(answer)
