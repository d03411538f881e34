"""Measures a backfill: a feed's past from a finished log, by Spark."""

from __future__ import annotations

import uuid
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from bench.topics import BenchTopics
from bench.workload import BASE_NS, OUTPUT_PARTITIONS, BenchLog
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import RetryError
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.shown_versions import versions_shown
from tidegate.spark.backfill.backfill import Backfill, BackfillOptions, define_backfill

_WAYS: Final = {
    "a scan: survey, then the newest of each key": "initial_scan='only'",
    "above a cursor: one pass": f"updated, cursor='{BASE_NS - 1}'",
}


class SparkBackfill(NamedTuple):
    """A backfill of a log of ``rows`` versions. It took ``survey_s`` until the feed's start was known, and
    ``seconds`` in all, without Spark's own start."""

    way: str
    rows: int
    survey_s: float
    seconds: float
    rows_per_s: float


def backfills(
    session: SparkSession, topics: BenchTopics, topic_prefix: str, log: BenchLog, directory: Path
) -> list[SparkBackfill]:
    """Measure each way once, over the log of ``topic_prefix``.

    Raises ``RetryError`` when not every row was written.
    """
    return [
        _backfill(session, topics, topic_prefix, log, directory, way, options)
        for way, options in _WAYS.items()
    ]


def _backfill(
    session: SparkSession,
    topics: BenchTopics,
    topic_prefix: str,
    log: BenchLog,
    directory: Path,
    way: str,
    with_options: str,
) -> SparkBackfill:
    prefix = f"bench-{uuid.uuid4().hex[:8]}-"
    options = BackfillOptions(
        KafkaConnection(topics.bootstrap, timeout_s=60.0),
        f"{prefix}app",
        topic_prefix,
        (directory / prefix).absolute().as_uri(),
        output_partitions=OUTPUT_PARTITIONS,
    )
    (table,) = log.tables
    statement = (
        f"CREATE CHANGEFEED FOR TABLE {table.name} INTO 'kafka://{topics.bootstrap}?topic_prefix={prefix}' "
        f"WITH {with_options}"
    )
    feed_id, said = define_backfill(options, statement), list[float]()
    begin = perf_counter()
    with Backfill(session, options, feed_id, lambda _: said.append(perf_counter())) as job:
        job.run()
    seconds = perf_counter() - begin
    written = topics.size([f"{prefix}{table.name}"])
    owed = log.rows if "cursor" in with_options else _keys(log)
    if written != owed:
        raise RetryError(f"a backfill wrote {written} rows of {owed}")
    survey_s = said[0] - begin if len(said) > 2 else 0.0
    return SparkBackfill(way, log.rows, survey_s, seconds, log.rows / seconds)


def _keys(log: BenchLog) -> int:
    """Return the number of keys in the log; none of them is deleted."""
    entries = (decode_entry(record.key, record.value) for record in log.records)
    return len({version.key for entry in entries for version in versions_shown(entry)})
