"""The facts about a query that its driver and its tasks share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.processor.config import ProcessorConfig
from tidegate.spark.platform.store_access import StoreAccess

#: The default of ``Query.held_bytes``.
HELD_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Query:
    """The settings that all rounds of a query share.

    They travel to the tasks, with the secrets of ``connection`` in them. ``id`` is the id of this run of the
    query: no other run may use what Python workers keep. ``root`` is the directory of its state, a path or
    URI. With ``whole_checkpoints_only`` a checkpoint is answered only in a round that asks for whole ones,
    and not by each step: a batch of a whole log would answer many that nobody reads. ``sink_stall_s`` is how
    long a cluster other than the query's own may acknowledge nothing before its feeds are detached; without
    it such a cluster is waited for without limit. ``access`` has the login for the file system of ``root``.
    A round has at most ``tasks`` tasks (0: as many as Spark has cores). A Python worker keeps states of about
    ``held_bytes`` in memory between rounds.
    """

    id: str
    connection: KafkaConnection
    log: str
    partitions: int
    root: str
    config: ProcessorConfig
    whole_checkpoints_only: bool = False
    sink_stall_s: float | None = None
    access: StoreAccess = field(default_factory=StoreAccess.of_environment)
    tasks: int = 0
    held_bytes: int = HELD_BYTES
