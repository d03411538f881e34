"""A Spark query over a log that is there, whose tasks run in this process: in this tree, and in an older one.

All of it is tidegate's own but for Spark, the producers of rows, and the reading of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pyarrow import fs

import tidegate.spark.changefeed.row_producer
import tidegate.spark.changefeed.row_sinks
import tidegate.spark.changefeed.task.partition_task
import tidegate.spark.changefeed.task.round_state
from tests.feeds import WITH_MARKERS, activation
from tests.logs import Record
from tests.stored_state.stored import PARTITIONS, Stored
from tests.unit.spark.driven_clients import STORED, DrivenClients
from tests.unit.spark.in_process import InProcess
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import ZERO
from tidegate.processor.batch import LogRecord, OutputRecord, PartitionCheckpoint
from tidegate.processor.checkpoint import decode_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.push_policy import PushPolicy
from tidegate.raftlog.request import Push, Scan, decode_request
from tidegate.rows import TableDescriptor, decode_descriptor
from tidegate.spark.changefeed.ledger import Ledger
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.log_records import LogEntryRecord

HOME_SERVERS: Final = "127.0.0.1:9"
#: A cluster that stands still at times.
AWAY_SERVERS: Final = "127.0.0.1:8"
_KEY_BYTES: Final = 8  # of a range id, before the request


class DriverDied(Exception):
    """The death of the driver: what it had in memory is gone."""


class QueryOverLog:
    """A query with the state at ``root``. ``feeds`` are told when they are due, and paused when left behind.

    ``rows`` has what the clusters have taken, ``checkpoints`` what partitions said, ``requests`` what they
    asked for.
    """

    def __init__(self, root: Path, connection: KafkaConnection, patch: pytest.MonkeyPatch) -> None:
        self.rows: list[OutputRecord] = []
        self.checkpoints: list[PartitionCheckpoint] = []
        self.requests: list[Push | Scan] = []
        self.due: list[Activate] = []
        self.left_behind = frozenset[FeedId]()
        self.dies = False
        self.clients = DrivenClients(Random(5), AWAY_SERVERS, self.rows.append)
        self._log: Sequence[Sequence[Record]] = ()
        _patch(patch, self.clients, self._read_again)
        root.mkdir(parents=True, exist_ok=True)
        config = ProcessorConfig(PushPolicy(age_ms=500, repeat_ms=300), log_id="log-1", detachable=True)
        query = Query("query", connection, "raftlog", PARTITIONS, root.as_uri(), config, sink_stall_s=60.0)
        self._driver = InProcess(query, Ledger(fs.LocalFileSystem(), str(root)), self)

    def run(self, batch: int, log: Sequence[Sequence[Record]], ends: Sequence[slice]) -> None:
        """Run a batch over these records of the log. Raises ``DriverDied`` if that is asked for."""
        self._log = log
        records = {number: log[number][part] for number, part in enumerate(ends)}
        self._driver({number: some for number, some in records.items() if some}, batch)  # type: ignore[arg-type]

    # ---- what the driver asks (`tidegate.spark.changefeed.batch_driver.Feeds`)

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        return [(feed, range(PARTITIONS)) for feed in self.due]

    def reached(self, ends: Callable[[], Mapping[int, int]]) -> bool:
        return False

    def paused(self) -> frozenset[FeedId]:
        return self.left_behind

    def clusters(self) -> Mapping[str, str]:
        return {"home": "", "away": STORED, "scan": ""}

    def note_answers(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            match answer.kind:
                case "checkpoint":
                    self.checkpoints.append(decode_checkpoint(answer.body))
                case "stalled":
                    self.left_behind |= {FeedId(answer.body.decode())}
                case "ack":
                    self.due = []
                case "request":
                    request = decode_request(answer.body[_KEY_BYTES:])
                    assert isinstance(request, Push | Scan)
                    self.requests.append(request)

    take = note_answers  # as a248221 calls it

    def publish(self) -> None:
        if self.dies:
            raise DriverDied

    def _read_again(self, _: Query, partition: int, offsets: range) -> Iterator[list[LogRecord]]:
        yield [LogEntryRecord(*record) for record in self._log[partition][offsets.start : offsets.stop]]


def _patch(patch: pytest.MonkeyPatch, clients: DrivenClients, read_again: Callable[..., Any]) -> None:
    changefeed = tidegate.spark.changefeed
    patch.setattr(changefeed.row_producer, "Producer", clients)
    patch.setattr(changefeed.row_producer, "time", SimpleNamespace(monotonic=lambda: clients.now))
    patch.setattr(changefeed.row_sinks, "_idle", {})
    patch.setattr(changefeed.row_sinks, "_stalled_at", {})
    patch.setattr(changefeed.task.round_state, "_held", {})
    patch.setattr(changefeed.task.partition_task, "_read_again", read_again)
    patch.setattr(changefeed.task.partition_task.PartitionTask, "_log_start", lambda _: 0)


def tables_of(stored: Stored) -> list[TableDescriptor]:
    """The newest version of each table."""
    tables = (decode_descriptor(update.descriptor) for update in stored.descriptors)
    return list({table.id: table for table in sorted(tables, key=lambda table: table.version)}.values())


def feeds_of(stored: Stored) -> dict[str, Activate]:
    """The feeds of the query: one on its own cluster, one on the other, and one that begins with a scan."""
    tables = tables_of(stored)
    options = {name: replace(WITH_MARKERS, topic_prefix=f"{name}-") for name in ("home", "away", "scan")}
    middle = sorted(version.timestamp for version in stored.history)[len(stored.history) // 2]
    scan = replace(options["scan"], initial_scan=InitialScan.YES)
    own, other = f"kafka://{HOME_SERVERS}", f"kafka://{AWAY_SERVERS}"
    return {
        "home": activation(tables, options["home"], start=ZERO, feed_id="home", sink_uri=own),
        "away": activation(tables, options["away"], start=ZERO, feed_id="away", sink_uri=other),
        "scan": activation(tables, scan, start=middle, feed_id="scan", sink_uri=own),
    }
