"""The things that one worker process holds open: data directory, clients, threads, sinks, registries."""

from __future__ import annotations

from typing import Final

from tidegate.client.kafka.client_room import ClientRoom
from tidegate.client.kafka.topics import Topics
from tidegate.client.local_files import LocalFiles
from tidegate.client.refused_records import DIRECTORY, RefusedRecords
from tidegate.delivery.feed_places import FeedPlaces
from tidegate.processor.refused import Source
from tidegate.worker.commit.commit_loop import CommitLimits, Threads
from tidegate.worker.kafka.topology import Topology, WorkerTopicAdmin
from tidegate.worker.output.outlet import OutletLimits
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.schema_ids import SchemaIds
from tidegate.worker.process.settings import Settings

_REOPENING: Final = 2


class Runtime:
    """The things that one worker process holds open, from its settings to its orderly end."""

    def __init__(self, settings: Settings, schema_ids: SchemaIds, machine: Machine = REAL) -> None:
        """Open everything, and check the settings and the topics before the first record is read.

        Waits for the broker without limit. Raises ``TopologyError`` for a data directory or topics that
        cannot be used.
        """
        self.settings = settings
        self.machine = machine
        self.topics = Topics.of(settings)
        self.directory = machine.directory(settings.home)
        self.admin = WorkerTopicAdmin(settings, machine)
        self.topology: Topology = self.admin.discover(settings)
        self.schema_ids = schema_ids
        refused = LocalFiles(settings.home / DIRECTORY)
        self.refused = RefusedRecords(lambda: refused, _read_topics(self.topics))
        self.threads = Threads(
            steps=machine.executor(1, "steps"),
            commits=machine.executor(settings.commit_threads, "commits"),
        )
        #: The threads that open partitions. They wait for the coordinator, and read changelogs. Meanwhile the
        #: commits of other partitions go on, in other threads.
        self.opening_threads = machine.executor(settings.commit_threads, "openings")
        #: The threads for progress and markers of feeds. A feed whose topic takes no marker keeps one, so
        #: these are not the threads by which log partitions commit.
        self.publisher_threads = machine.executor(settings.commit_threads, "publishers")
        #: The threads for feeds that open their producer anew, since Kafka has not ended one of their
        #: transactions.
        self.reopening_threads = machine.executor(_REOPENING, "reopening")
        clients = machine.clients_for_feeds(self.topology.partitions)
        self.feed_places = FeedPlaces(clients, settings.bootstrap_servers)
        #: Room for the producers of feeds' progress. More feeds may have begun than a process has places for.
        self.progress_room = ClientRoom(clients)
        self.sinks = WorkerSinks(settings, self.admin, self.threads.commits, machine)
        self.limits = CommitLimits(
            settings.batch_records,
            settings.inflight_batches,
            settings.queued_batches,
            OutletLimits(
                settings.home / "spools",
                settings.feed_memory_bytes,
                settings.feed_spool_bytes,
                settings.sink_stall_ms / 1_000,
                settings.drain_sinks_ms / 1_000,
            ),
        )

    def close(self) -> None:
        """Release everything. Rows that are not acknowledged are given up."""
        self.threads.steps.shutdown()
        self.threads.commits.shutdown()
        self.opening_threads.shutdown()
        self.publisher_threads.shutdown()
        self.reopening_threads.shutdown()
        self.schema_ids.close()
        self.sinks.close()
        self.directory.close()


def _read_topics(topics: Topics) -> dict[Source, str]:
    """Return the topics that log partitions read."""
    return {
        Source.LOG: topics.log,
        Source.ROW: topics.log,
        Source.CONTROL: topics.control,
        Source.HAND_OFFS: topics.hand_offs,
    }
