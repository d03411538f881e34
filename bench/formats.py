"""The worker in each format and envelope, over one log, beside a raw copy of what it wrote.

Every run has a worker, topics and a feed of its own. Most rows of the log are updates, and carry the row
before, which the debezium envelope shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from bench.endtoend import LOG_PARTITIONS, Throughput, run_copy, run_worker
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from bench.workload import BENCH_OPTIONS, BenchLog
from stack.registry import SchemaRegistry
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format

#: For sinks: markers are on a topic of their own, whose name gets the run's prefix.
_FOR_SINKS: Final = FeedOptions(resolved_interval_ns=0, resolved_topic="markers")
#: In the order of the table. Avro's options get their registry when it runs.
_FORMATS: Final = {
    "json wrapped": BENCH_OPTIONS,
    "json row": replace(BENCH_OPTIONS, envelope=Envelope.ROW),
    "json upsert": replace(_FOR_SINKS, envelope=Envelope.UPSERT),
    "json debezium": replace(_FOR_SINKS, envelope=Envelope.DEBEZIUM),
    "avro wrapped": replace(BENCH_OPTIONS, format=Format.AVRO),
    "avro upsert": replace(_FOR_SINKS, format=Format.AVRO, envelope=Envelope.UPSERT),
    "avro debezium": replace(_FOR_SINKS, format=Format.AVRO, envelope=Envelope.DEBEZIUM),
}
_REGISTRATIONS: Final = re.compile(r"^tidegate_schema_registrations_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class FormatResult(NamedTuple):
    """One format. ``over_copy`` is its rate over that of the raw copy. ``registrations`` is how many schemas
    the registry got for all ``rows``, and ``None`` for a format without schemas."""

    format: str
    rows: int
    rows_per_s: float
    cpu_us_per_row: float | None
    over_copy: float
    registrations: int | None


def formats(log: BenchLog, topics: BenchTopics, directory: Path) -> Iterator[FormatResult]:
    """Measure all formats, one after the other; the copy runs last and copies the first one's topic.

    Raises ``RetryError`` when a worker does not write exactly the rows of the log.
    """
    results: list[tuple[Throughput, int | None]] = []
    first_output = ""
    with SchemaRegistry() as registry:
        for number, (name, options) in enumerate(_FORMATS.items()):
            home = directory / str(number)
            home.mkdir()
            if options.format is Format.AVRO:
                options = replace(options, confluent_schema_registry=registry.url)
            application = BenchApplication(topics, home, LOG_PARTITIONS, log.tables, options)
            first_output = first_output or application.outputs[0]
            results.append(_run(name, application, log, topics, options))
    copied = run_copy(topics, directory, first_output, log.name)
    for done, registrations in (*results, (copied, None)):
        yield FormatResult(
            done.contender,
            done.rows,
            done.rows_per_s,
            done.cpu_us_per_row,
            done.rows_per_s / copied.rows_per_s,
            registrations,
        )


def _run(
    name: str, application: BenchApplication, log: BenchLog, topics: BenchTopics, options: FeedOptions
) -> tuple[Throughput, int | None]:
    counted: list[int] = []
    done = run_worker(
        application,
        log,
        topics,
        contender=name,
        done=lambda: counted.append(registrations(application.metrics())),
    )
    return done, counted[0] if options.format is Format.AVRO else None


def registrations(metrics: str) -> int:
    """Return the number of schemas that the worker had registered, from the text of its metrics."""
    return int(sum(float(found[1]) for found in _REGISTRATIONS.finditer(metrics)))
