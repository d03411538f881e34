"""The task of a peer: the broker, its topics and a directory. It imports the standard library alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

_PREFIX: Final = "BENCH_"

#: Settings of librdkafka for all who write through it: those of tidegate's own row producer.
PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
}


@dataclass(frozen=True, slots=True)
class PeerTask:
    """The task of one run. ``name`` is new for each run; the consumer group and the topics of the peer's
    state are named by it."""

    bootstrap: str
    source: str
    target: str
    name: str
    directory: str

    def environment(self) -> dict[str, str]:
        """Return the environment variables that tell a process its task."""
        return {f"{_PREFIX}{key.upper()}": value for key, value in asdict(self).items()}

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the task of this process."""
        return cls(**{key: environment[f"{_PREFIX}{key.upper()}"] for key in cls.__dataclass_fields__})
