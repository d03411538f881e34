"""Runs a simulated worker, stops it in the middle, and writes what it has stored.

    python .../tests/stored_state/in_old_tree.py . write DIRECTORY     (in the older checkout)

The README beside this file says what this is for. ``worker.jsonl.xz`` has the same bytes each time.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from sim.options import StoreOptions
from tables import TABLES
from tests.simulation.clients import NetworkOptions
from tests.simulation.kafka import Broker, Partition
from tests.simulation.plan import PROFILES, PlannedFeed, RunPlan, draw
from tests.simulation.registry import RegistryPlan
from tests.simulation.run import Run
from tests.simulation.sinks import PlannedSink, SinkPlan, Trouble, TroubleKind
from tests.stored_state.archives import pack
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.client.kafka.topics import Topics
from tidegate.processor.batch import StateChange
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.worker.process.ending import leaving_by
from tidegate.worker.state.store import rocks_stores

_SEED: Final = 22
#: When the worker is stopped, and when the store begins nothing more: seconds from the first feed on.
_STOP_S: Final = 6.64
_END_S: Final = 7.4
_CALM_S: Final = 200.0
_PARTITIONS: Final = 3
#: From then on the sink of the third feed takes no rows.
_STANDS_FROM_S: Final = 2.5
#: When the last feed is created, so that the worker is stopped amid its scan: seconds from the beginning on.
_SCANS_FROM_S: Final = 7.0
#: Files of RocksDB that hold nothing of the state.
_LEFT_OUT: Final = ("LOG", "LOCK")


def plan(seed: int = _SEED) -> RunPlan:
    """The run: a store with splits, merges and holes, and four feeds."""
    options = FeedOptions(updated=True, resolved_interval_ns=0)
    feeds = (
        PlannedFeed(0.0, replace(options, topic_prefix="f0-", diff=True)),
        PlannedFeed(0.0, replace(options, topic_prefix="f1-")),
        PlannedFeed(0.0, replace(options, topic_prefix="f2-")),
        PlannedFeed(_SCANS_FROM_S, replace(options, topic_prefix="f3-", initial_scan=InitialScan.YES), 0.5),
    )
    stands = Trouble(_STANDS_FROM_S, 60.0, TroubleKind.STANDS)
    sinks = (PlannedSink(), PlannedSink(), PlannedSink(elsewhere=True, troubles=(stands,)), PlannedSink())
    return replace(
        draw(seed, PROFILES["calm"]),
        seconds=_END_S,
        waits_for_feed=True,
        workers=1,
        partitions=_PARTITIONS,
        output_partitions=2,
        checkpoint_partitions=2,
        batch_records=10,
        store=StoreOptions(
            partitions=_PARTITIONS,
            write_rate=40.0,
            closed_lag_ms=200,
            heartbeat_ms=600,
            snapshot_interval_ms=1_500,
            snapshot_chunk_intents=1,
            txn_expiry_ms=1_000,
            request_gap_ms=50,
            resolve_delay_ms=400,
            scan_chunk_rows=2,
            scan_gap_ms=200,
            split_every_ms=400,
            merge_every_ms=700,
            ship_delay_ms=50,
            skip_every_ms=1_000,
        ),
        network=NetworkOptions(usual_s=0.01, slow=0.0),
        push_age_ms=300,
        push_repeat_ms=500,
        feeds=feeds,
        sinks=SinkPlan(sinks, stall_ms=1_000, memory_bytes=2_000, spool_bytes=0),
        registry=RegistryPlan(feeds=(False, True, False, False), alterations=frozenset({5, 20})),
    )


class Stored:
    """The records that one run has stored when its worker is stopped, line by line."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.lines: list[dict[str, Any]] = []
        self._log_ends = [0] * _PARTITIONS

    def collect(self) -> None:
        """Collect everything that has outlived the worker."""
        run = self._run
        self.lines.append({"kind": "clock", "seconds": run.scheduler.now})
        for cluster, broker in self._clusters():
            for name, topic in sorted(broker.topics.items()):
                described = {"kind": "topic", "cluster": cluster, "name": name, "id": topic.id}
                self.lines.append(described | {"partitions": len(topic.partitions), "config": topic.config})
                for partition in topic.partitions:
                    self.lines += _records(cluster, partition)
        self.lines += restored(run)
        for (name, number), offset in sorted(run.broker.group.items()):
            self.lines.append({"kind": "group", "topic": name, "partition": number, "offset": offset})
        for schema, number in run.registry._ids.items():
            self.lines.append(
                {"kind": "schema", "id": number, "subject": schema.subject, "text": schema.text}
            )
        self._log_ends = [partition.end for partition in self._log()]

    def take_rest(self) -> None:
        """Take what the store wrote afterwards, what truly happened, and the ranges that there are in the
        end."""
        for partition, end in zip(self._log(), self._log_ends, strict=True):
            self.lines += _records("", partition, end, kind="later")
        for version in self._run.source.history:
            table_id, key, at, value = version
            place = {"kind": "version", "table": table_id, "key": key.hex(), "value": value.hex()}
            self.lines.append(place | {"at": list(at)})
        for range_ in self._run.source.simulation.store.ranges:
            span = [key.hex() for key in range_.span]
            generation = range_.descriptor.generation
            place = {"kind": "range", "id": range_.id, "generation": generation, "span": span}
            self.lines.append(place | {"index": range_.applied})

    def _clusters(self) -> Iterator[tuple[str, Broker]]:
        yield "", self._run.broker
        yield from ((servers, broker) for servers, (_, broker) in self._run._others.items())

    def _log(self) -> list[Partition]:
        return self._run.broker.topics[Topics.of(self._run.settings).log].partitions


def _records(
    cluster: str, partition: Partition, first: int = 0, kind: str = "record"
) -> Iterator[dict[str, Any]]:
    """The committed records of a partition, and where it ends."""
    entries, end = partition.read(first, partition.end)
    place = {"kind": kind, "cluster": cluster, "topic": partition.topic, "partition": partition.number}
    for entry in entries:
        record = entry.record
        assert record is not None
        headers = [[name, value.hex()] for name, value in record.headers]
        yield place | {
            "offset": entry.offset,
            "ms": entry.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": headers,
        }
    yield place | {"kind": "end", "offset": end}


def restored(run: Run) -> Iterator[dict[str, Any]]:
    """Yield what this code says of the stored state when it restores it, by log partition."""
    topics = Topics.of(run.settings).changelogs()
    for number in range(_PARTITIONS):
        rows: dict[Any, bytes | None] = {}
        for table, name in topics.items():
            place = run.broker.partition(name, number)
            rows |= {(table, entry.key): entry.value for entry in place.read(0, place.end)[0]}
        stored = [(table, key, value) for (table, key), value in rows.items() if value is not None]
        processor = PartitionProcessor.restore(number, _PARTITIONS, ProcessorConfig(), stored)
        yield {"kind": "restored", "partition": number, **facts_of(processor)}


def facts_of(processor: PartitionProcessor) -> dict[str, Any]:
    """Return where a processor is, and what it is amid."""
    status, again = processor.status(), processor.to_read_again
    return {
        "offsets": [processor.next_offset, processor.next_control_offset, processor.next_hand_off],
        "again": [again.start, again.stop],
        "ranges": status.ranges,
        "open": [status.open_transactions, status.tracked_intents],
        "live": [
            [item.range_id, item.generation, [key.hex() for key in item.span or ()], list(item.resolved)]
            for item in status.slowest
        ],
        "quarantined": [
            [item.range_id, list(item.resolved), item.offset, item.cause] for item in status.quarantined
        ],
        "gaps": [[item.feed_id, item.ranges, list(item.complete_to or ())] for item in status.with_gaps],
    }


def copies(run: Run, archive: Path) -> None:
    """Write the worker's local copies of its state, as RocksDB has them."""
    with TemporaryDirectory() as name:
        open_store = rocks_stores(TABLES)
        for path, content in run.hosts[0].disk._content.items():
            store = open_store(Path(name) / path.name)
            rows = [StateChange(table, key, value) for (table, key), value in content.rows.items()]
            store.write(rows, content.positions, content.written_ms or 0)
            store.close()
        pack(Path(name), archive, without=_LEFT_OUT)


def main(directory: Path) -> None:
    """Run, and write."""
    directory.mkdir(parents=True, exist_ok=True)
    run = Run(plan())
    stored = Stored(run)
    with run._directory, leaving_by(run._leave), run._lines():
        run._begin()
        run._wait_for_feed()
        run._plan_faults()
        run.scheduler.run(run.scheduler.now + _STOP_S)
        stored.collect()
        copies(run, directory / "copies.tar.xz")
        run.scheduler.run(run.scheduler.now + _END_S - _STOP_S)
        run._calm_down()
        run.scheduler.run(run.scheduler.now + _CALM_S, run._at_rest)
        run._judge()
        stored.take_rest()
        for host in run.hosts:
            if host.process is not None:
                host.process.kill()
        run.scheduler.run(run.scheduler.now + 0.001)
    if run.outcome.faults:
        raise SystemExit("\n".join(run.outcome.faults))
    text = "".join(f"{json.dumps(line)}\n" for line in stored.lines)
    (directory / "worker.jsonl.xz").write_bytes(lzma.compress(text.encode()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
