"""How many Kafka clients this process can have, as far as the system allows."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import ClientsExhausted

#: The system gives a process 1,024 keys of thread-local storage (``PTHREAD_KEYS_MAX`` of glibc), and each
#: client of confluent-kafka takes one. A query could open 984 producers of feeds beside its other clients.
_CLIENTS_MOST: Final = 900
#: The open files of an idle producer are 8 on a cluster of one broker, and about 3 more for each further one.
#: So this is enough for five brokers.
_CLIENT_FILES: Final = 20
#: The open files of a process without feeds and log partitions.
_OTHER_FILES: Final = 100
#: The open files of a log partition of a worker (docs/design/2026-11-21-own-state-recovery.md).
_PARTITION_FILES: Final = 14

ClientT = TypeVar("ClientT")


def allow_open_files() -> None:
    """Raise this process's limit of open files as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def clients_for_feeds(log_partitions: int = 0) -> int:
    """Return how many Kafka clients this process may have for feeds.

    ``log_partitions`` is how many of them the process may hold: each has a producer and files of its own.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return clients_within(None if files == resource.RLIM_INFINITY else files, log_partitions)


def clients_within(files: int | None, log_partitions: int) -> int:
    """Return the number of `clients_for_feeds` for a limit of open ``files``; ``None`` for no limit."""
    most = _CLIENTS_MOST - log_partitions
    if files is not None:
        most = min(most, (files - _OTHER_FILES - _PARTITION_FILES * log_partitions) // _CLIENT_FILES)
    return max(1, most)


class ClientRoom:
    """Room for ``most`` clients of one kind. The rest of the process keeps what it needs for others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._there: WeakSet[object] = WeakSet()

    def opened(self, new: Callable[[], ClientT]) -> ClientT:
        """Return the client that ``new`` makes. It takes room until nothing refers to it.

        Raises ``ClientsExhausted`` if there is no room, and what ``new`` raises.
        """
        if len(self._there) >= self._most:
            raise no_room(f"{self._most} are open for feeds")
        client = new()
        self._there.add(client)
        return client


def no_room(why: str) -> ClientsExhausted:
    """Return the error for a client too many."""
    return ClientsExhausted(
        f"This process has no room for another Kafka client ({why}). Drop feeds that nobody needs, or have "
        "other feeds run in another application."
    )


def room_error(error: Exception) -> ClientsExhausted | None:
    """Return the error for an exception that confluent-kafka raises for a client too many; else ``None``.

    The exception is a ``RuntimeError`` where the process has no more keys of thread-local storage, and a
    ``KafkaException`` where it has no more threads.
    """
    if isinstance(error, RuntimeError):
        return no_room(f"{error}: it can have about a thousand")
    if isinstance(error, KafkaException) and error.args[0].code() == KafkaError._CRIT_SYS_RESOURCE:  # noqa: SLF001
        return no_room(error.args[0].str())
    return None
