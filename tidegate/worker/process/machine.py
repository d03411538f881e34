"""The machine that a worker runs on: it gives Kafka clients, the data directory, and threads that may block.

A process has one machine. A simulation brings its own, with a broker in memory and threads that take turns
(`tests/simulation`).
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tidegate.client.kafka.client_room import clients_for_feeds
from tidegate.client.kafka.prompt_consumer import PromptConsumer
from tidegate.worker.process.data_dir import DataDirectory


class Background(Protocol):
    """Work that runs beside the event loop until it ends by itself."""

    def join(self) -> None:
        """Wait until the work has ended."""


class Machine(Protocol):
    """The machine of a worker: it opens clients, directories, threads and background tasks.

    Clients are librdkafka's, or behave like them. ``config`` has librdkafka's names.
    """

    def producer(self, config: Mapping[str, Any]) -> Producer: ...
    def consumer(self, config: Mapping[str, Any]) -> Consumer: ...
    def admin(self, config: Mapping[str, Any]) -> AdminClient: ...
    def clients_for_feeds(self, log_partitions: int) -> int: ...
    def directory(self, home: Path) -> DataDirectory: ...
    def executor(self, threads: int, name: str) -> Executor: ...
    def background(self, work: Callable[[], None], name: str) -> Background: ...


class RealMachine:
    """The machine outside of simulations: librdkafka, and the threads of this process."""

    def producer(self, config: Mapping[str, Any]) -> Producer:
        """Return a producer, which is transactional if the configuration says so."""
        return Producer(config)

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        """Return a consumer."""
        return PromptConsumer(config)

    def admin(self, config: Mapping[str, Any]) -> AdminClient:
        """Return a client that asks for topics and creates them."""
        return AdminClient(config)

    def clients_for_feeds(self, log_partitions: int) -> int:
        """Return how many clients the markers of feeds may take, in a process with so many log partitions."""
        return clients_for_feeds(log_partitions)

    def directory(self, home: Path) -> DataDirectory:
        """Return the data directory, locked. Raises ``TopologyError`` as ``DataDirectory`` does."""
        return DataDirectory(home)

    def executor(self, threads: int, name: str) -> Executor:
        """Return a pool of ``threads`` threads, whose names begin with ``name``."""
        return ThreadPoolExecutor(threads, name)

    def background(self, work: Callable[[], None], name: str) -> Background:
        """Return a thread for which the end of the process does not wait.

        Raises ``OSError`` where the system gives the process no more threads.
        """
        thread = threading.Thread(target=work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        return thread


REAL: Final[Machine] = RealMachine()
