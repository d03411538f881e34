"""The transactional producers of a worker, made by its settings."""

from __future__ import annotations

from tidegate.client.kafka import transaction
from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.processor.bounds import BOUNDS
from tidegate.worker.kafka.clients import KAFKA_LOGGER, librdkafka_config, opened
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings


class WorkerTransactionalProducer(transaction.TransactionalProducer):
    """A ``TransactionalProducer`` with the settings of a worker: its own, or those for a sink's cluster.

    It writes state, messages and markers. The bounds of feeds' definitions are constants, so a record
    here may be larger than ``max_record_bytes``. A batch of several records may not be larger than that.
    Raises ``SettingsError`` where no client can be opened.
    """

    def __init__(self, settings: Settings, transactional_id: str, machine: Machine = REAL) -> None:
        limit = max(settings.max_record_bytes, BOUNDS.record_bytes)
        watch = ClusterWatch(KAFKA_LOGGER)
        config = {
            **librdkafka_config(settings),
            "logger": watch,
            **transaction.transactional(transactional_id, limit),
            "batch.size": min(settings.max_record_bytes, BOUNDS.record_bytes),
            "compression.type": settings.compression,
        }
        producer = opened(lambda: machine.producer(config), settings.bootstrap_servers)
        super().__init__(producer, transactional_id, limit, watch)
