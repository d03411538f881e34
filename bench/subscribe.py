"""Measures a subscription beside a consumer that only takes keys and values.

Both read the same topic of rows of 219 bytes, on four partitions, with markers every 2,000 rows. Rows of a
feed WITH ``diff`` are twice as large. Rounds alternate, so that other work on the machine disturbs both
alike. Medians count.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from bench.topics import BenchTopics
from tidegate.changefeed.definition.feed import FeedTarget, TableName
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import LiveSubscription
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe import Relation, Relations, parse_subscribe, plan_subscribe

PARTITIONS: Final = 4
_KEYS: Final = 50_000
_MARKED_ROWS: Final = 2_000
_ROUNDS: Final = 3
_BEGIN_NS: Final = 1_763_000_000_000_000_000
_START: Final = Timestamp(1)
_COLUMNS: Final = {
    "amount": "DECIMAL(12,2)",
    "created": "TIMESTAMPTZ",
    "currency": "STRING",
    "customer": "INT8",
    "id": "INT8",
    "note": "STRING",
    "paid": "BOOL",
    "status": "STRING",
}
RELATION: Final = Relation(
    TableName("orders"), tuple(_COLUMNS), ("id",), types=tuple(map(parse_sql_type, _COLUMNS.values()))
)
_SILENCE_S: Final = 30.0


class _Case(NamedTuple):
    """A statement over a feed WITH diff or without. The subscription keeps its rows by key in RocksDB or in
    memory.

    ``as_arrow`` asks for each batch as an Arrow table too, ``columnar`` for batches that are columns first.
    """

    with_before: bool
    statement: str
    in_rocksdb: bool = False
    as_arrow: bool = False
    columnar: bool = False


_CASES: Final = {
    "rows (ENVELOPE UPSERT by the primary key)": _Case(
        False, "SUBSCRIBE orders ENVELOPE UPSERT (KEY (id)) AS OF 1"
    ),
    "rows as Arrow tables (ENVELOPE UPSERT by the primary key)": _Case(
        False, "SUBSCRIBE orders ENVELOPE UPSERT (KEY (id)) AS OF 1", as_arrow=True, columnar=True
    ),
    "rows, and Arrow tables made of them": _Case(
        False, "SUBSCRIBE orders ENVELOPE UPSERT (KEY (id)) AS OF 1", as_arrow=True
    ),
    "diffs of a feed WITH diff": _Case(True, "SUBSCRIBE orders AS OF 1"),
    "diffs of a feed WITH diff as Arrow tables": _Case(
        True, "SUBSCRIBE orders AS OF 1", as_arrow=True, columnar=True
    ),
    "diffs, rows by key in memory": _Case(False, "SUBSCRIBE orders AS OF 1"),
    "diffs, rows by key in RocksDB": _Case(False, "SUBSCRIBE orders AS OF 1", in_rocksdb=True),
    "snapshot as of the end": _Case(False, "SUBSCRIBE orders AS OF {end}"),
    "rows by another key, rows by key in memory": _Case(
        False, "SUBSCRIBE orders ENVELOPE UPSERT (KEY (customer)) AS OF 1"
    ),
}


class SubscribeCost(NamedTuple):
    """One way to consume.

    ``of_raw`` is its rows/s over those of the raw consumer, ``cpu_of_raw`` its processor time over that of
    the raw one.
    """

    case: str
    rows: int
    us_per_row: float
    rows_per_s: float
    of_raw: float
    cpu_of_raw: float


class _Run(NamedTuple):
    wall_s: float
    cpu_s: float


def subscribe_costs(topics: BenchTopics, rows: int, seed: int) -> list[SubscribeCost]:
    """Measure all cases on topics of ``rows`` rows."""
    costs: list[SubscribeCost] = []
    for with_before in (False, True):
        topic = f"subscribe-{uuid.uuid4().hex[:8]}"
        topics.create(topic, PARTITIONS)
        end = fill_topic(topics.bootstrap, topic, rows, seed, with_before=with_before)
        runs: dict[str, list[_Run]] = {"raw": []}
        for _ in range(_ROUNDS):
            runs["raw"].append(_timed(partial(consume_raw, topics.bootstrap, topic)))
            for case, asked in _CASES.items():
                if asked.with_before is with_before:
                    subscribe = partial(_subscribe, topics.bootstrap, topic, asked, end)
                    runs.setdefault(case, []).append(_timed(subscribe))
        costs += _costs(runs, rows, " of a feed WITH diff" if with_before else "")
    return costs


def _costs(runs: dict[str, list[_Run]], rows: int, of_what: str) -> Iterator[SubscribeCost]:
    wall, cpu = (median(getattr(run, name) for run in runs["raw"]) for name in _Run._fields)
    for case, of_case in runs.items():
        own_wall, own_cpu = (median(getattr(run, name) for run in of_case) for name in _Run._fields)
        yield SubscribeCost(
            f"raw consumer{of_what}" if case == "raw" else case,
            rows,
            own_cpu / rows * 1e6,
            rows / own_wall,
            wall / own_wall,
            own_cpu / cpu,
        )


def _timed(consume: Callable[[], object]) -> _Run:
    wall, cpu = time.perf_counter(), time.process_time()
    consume()
    return _Run(time.perf_counter() - wall, time.process_time() - cpu)


def consume_raw(bootstrap: str, topic: str) -> None:
    """Take error, key and value of every record, up to each partition's end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([KafkaPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    left, silent_at = PARTITIONS, time.monotonic() + _SILENCE_S
    while left:
        for message in consumer.consume(10_000, timeout=0.02):
            silent_at = time.monotonic() + _SILENCE_S
            if message.error() is not None:
                left -= 1
            else:
                message.key(), message.value()
        if time.monotonic() > silent_at:
            raise RetryError(f"Nothing of {topic} has come for {_SILENCE_S:g} s.")
    consumer.close()


def open_subscription(
    bootstrap: str,
    topic: str,
    statement: str,
    *,
    with_before: bool = False,
    key_table: Path | None = None,
    columnar: bool = False,
) -> LiveSubscription:
    """Subscribe to a topic that was written by hand; no application has its feed."""
    table = bench_table(bootstrap, topic, with_before=with_before)
    plan = plan_subscribe(parse_subscribe(statement), Relations([RELATION]), time.time_ns())
    return LiveSubscription(table, plan, key_table=key_table, columnar=columnar)


def bench_table(bootstrap: str, topic: str, *, with_before: bool = False) -> SubscribableTable:
    """Return the table of such a topic."""
    options = FeedOptions(
        updated=True, diff=with_before, resolved_interval_ns=0, initial_scan=InitialScan.YES
    )
    target = FeedTarget(RELATION.name, 1, topic, PARTITIONS, ())
    feed = FeedTopics(options, _START, (target,), feed_id="bench")
    return SubscribableTable(feed, target, RELATION, KafkaConnection(bootstrap))


def _subscribe(bootstrap: str, topic: str, case: _Case, end: Timestamp) -> None:
    """Take every batch up to the last marker."""
    statement = case.statement.format(end=end)
    with (
        TemporaryDirectory(prefix="bench-rows-") as directory,
        open_subscription(
            bootstrap,
            topic,
            statement,
            with_before=case.with_before,
            key_table=Path(directory) if case.in_rocksdb else None,
            columnar=case.columnar,
        ) as subscription,
    ):
        while True:
            batch = subscription.next(_SILENCE_S)
            if batch is None:
                raise RetryError(f"No batch of {topic} has come for {_SILENCE_S:g} s.")
            if case.as_arrow:
                batch.arrow()
            if batch.frontier > end:
                return


def fill_topic(bootstrap: str, topic: str, rows: int, seed: int, *, with_before: bool) -> Timestamp:
    """Write the topic as a feed does. Return its last marker."""
    producer = _Writer(bootstrap, topic)
    random, wall, known, written = Random(seed), _BEGIN_NS, dict[int, str](), set[int]()
    transaction_rows = 1
    for number in range(rows):
        key = random.randrange(_KEYS)
        if key in written or len(written) == transaction_rows:
            wall += random.randint(1_000, 20_000)  # the next transaction: a key has one version in each
            transaction_rows = random.randint(1, 8)
            written.clear()
        written.add(key)
        before, after = known.get(key, "null"), "null" if random.random() < 0.03 else bench_row(random, key)
        known[key] = after
        members = f'"after": {after}' + (f', "before": {before}' if with_before else "")
        value = f'{{{members}, "updated": "{Timestamp(wall).decimal()}"}}'
        producer.put(b"[%d]" % key, value, key % PARTITIONS, wall)
        if number % _MARKED_ROWS == _MARKED_ROWS - 1 or number == rows - 1:
            wall += 1_000  # above all rows before it
            for partition in range(PARTITIONS):
                producer.put(None, f'{{"resolved":"{Timestamp(wall).decimal()}"}}', partition, wall)
            if number < rows - 1:
                wall += 1_000  # and below all rows after it
                written.clear()
    producer.finish()
    return Timestamp(wall)


class _Writer:
    """Writes records to one topic, in the order of each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
            }
        )

    def put(self, key: bytes | None, value: str, partition: int, wall: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value.encode(), key, partition, timestamp=wall // 1_000_000
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def finish(self) -> None:
        if self._producer.flush(60):
            raise RetryError(f"Not all of {self._topic} could be written.")


def bench_row(random: Random, key: int) -> str:
    """Return a row of the table, as JSON."""
    row: dict[str, Any] = {
        "amount": random.randrange(1, 10_000_000) / 100,
        "created": f"202{random.randrange(4)}-0{random.randrange(1, 9)}-11T10:26:40Z",
        "currency": random.choice(("EUR", "USD", "GBP", "CHF", "SEK")),
        "customer": random.randrange(1_000_000),
        "id": key,
        "note": random.choice(("leave at the door", "ring twice", "gift wrapping", "")),
        "paid": random.random() < 0.5,
        "status": random.choice(("new", "confirmed", "packed", "shipped", "returned")),
    }
    return json.dumps(row)
