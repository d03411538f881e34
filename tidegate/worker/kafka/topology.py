"""Checks the brokers, the log and the internal topics at start, and creates missing internal topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from tidegate.client.kafka import topic_admin
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.topics import Topics
from tidegate.worker.kafka.clients import KAFKA_LOGGER, librdkafka_config
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_BACKOFF_FIRST_S = 0.5
_BACKOFF_MAX_S = 10.0

_log = structlog.get_logger("tidegate.topology")


@dataclass(frozen=True, slots=True)
class Topology:
    """The topics that were found at start: the number of log partitions, and all topic ids by name."""

    partitions: int
    topic_ids: Mapping[str, str]


class WorkerTopicAdmin(topic_admin.TopicAdmin):
    """A ``TopicAdmin`` made by settings of a worker: its own, or those for the cluster of a sink."""

    def __init__(
        self, settings: Settings, machine: Machine = REAL, *, patience_s: float | None = None
    ) -> None:
        watch = ClusterWatch(KAFKA_LOGGER)
        super().__init__(
            machine.admin({**librdkafka_config(settings), "logger": watch}),
            settings.bootstrap_servers,
            settings.replication_factor,
            patience_s=patience_s,
            watch=watch,
        )

    def discover(self, settings: Settings) -> Topology:
        """Wait for the log topic, create missing internal topics, and check those that are there.

        Raises ``TopologyError`` for topics that do not fit together.
        """
        topics = Topics.of(settings)
        partitions = self._wait_for_log(topics.log)
        specs = topics.specs(partitions, settings.checkpoint_partitions)
        self.ensure(specs)
        return Topology(partitions, self.ids([topics.log, *(spec.name for spec in specs)]))

    def _wait_for_log(self, log: str) -> int:
        pause_s = _BACKOFF_FIRST_S
        while not (partitions := self.partitions(log)):
            _log.warning("waiting for the log topic, which the range store creates", topic=log)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _BACKOFF_MAX_S)
        return partitions
