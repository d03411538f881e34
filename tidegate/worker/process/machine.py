"""What a worker gets from the machine that it runs on: Kafka clients, its directory, threads that may block.

There is one of them for a process. A simulation brings its own, with a broker in memory and threads that
take turns (`tests/simulation`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tidegate.worker.process.data_dir import DataDirectory


class Background(Protocol):
    """Work that goes on beside the event loop, until it comes to its end by itself."""

    def join(self) -> None:
        """Return once it has."""


class Machine(Protocol):
    """Clients are librdkafka's, or behave like them; ``config`` has its names."""

    def producer(self, config: Mapping[str, Any]) -> Producer: ...
    def consumer(self, config: Mapping[str, Any]) -> Consumer: ...
    def admin(self, config: Mapping[str, Any]) -> AdminClient: ...
    def directory(self, home: Path) -> DataDirectory: ...
    def executor(self, threads: int, name: str) -> Executor: ...
    def background(self, work: Callable[[], None], name: str) -> Background: ...


class RealMachine:
    """librdkafka, and the threads of this process."""

    def producer(self, config: Mapping[str, Any]) -> Producer:
        """A producer, transactional where the configuration says so."""
        return Producer(config)

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        """A consumer."""
        return Consumer(config)

    def admin(self, config: Mapping[str, Any]) -> AdminClient:
        """A client for topics."""
        return AdminClient(config)

    def directory(self, home: Path) -> DataDirectory:
        """The data directory, locked. Raises ``TopologyError``."""
        return DataDirectory(home)

    def executor(self, threads: int, name: str) -> Executor:
        """A pool of so many threads."""
        return ThreadPoolExecutor(threads, name)

    def background(self, work: Callable[[], None], name: str) -> Background:
        """A thread that a process which ends does not wait for."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread


REAL: Final[Machine] = RealMachine()
