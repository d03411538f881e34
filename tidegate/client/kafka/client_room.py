"""How many Kafka clients this process can have, as far as the system allows."""

from __future__ import annotations

import resource
from typing import Final

#: The system gives a process 1,024 keys of thread-local storage (``PTHREAD_KEYS_MAX`` of glibc), and each
#: client of confluent-kafka takes one. A query could open 984 producers of feeds beside its other clients.
_CLIENTS_MOST: Final = 900
#: The open files of an idle producer are 8 with a single broker, and about 3 more with each other broker.
_CLIENT_FILES: Final = 20
#: The open files of a process without feeds and log partitions.
_OTHER_FILES: Final = 100
#: The open files of a log partition of a worker (docs/design/2026-11-21-own-state-recovery.md).
_PARTITION_FILES: Final = 14


def allow_open_files() -> None:
    """Raise this process's limit of open files as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def clients_for_feeds(log_partitions: int = 0) -> int:
    """Return how many Kafka clients this process may have for the markers of feeds.

    ``log_partitions`` is how many of them the process may hold: each has a producer and files of its own.
    """
    most = _CLIENTS_MOST - log_partitions
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:
        most = min(most, (files - _OTHER_FILES - _PARTITION_FILES * log_partitions) // _CLIENT_FILES)
    return max(1, most)
