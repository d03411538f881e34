"""The server's metrics, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.subscription import SubscriptionBatch

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class ServeCounts:
    """The counts of the server since it began.

    Attributes:
        batches: batches that streams gave, by the kind of output.
        rows: rows of these batches.
        behind: how often a stream was so slow that changes that it still needed had been dropped.
        refused_logins: logins that were refused, by front.
    """

    batches: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    behind: int = 0
    refused_logins: Counter[str] = field(default_factory=Counter)

    def delivered(self, output: str, batch: SubscriptionBatch) -> None:
        """Count a batch that a stream gives."""
        self.batches[output] += 1
        self.rows[output] += len(batch.rows)


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The figures of a table that is read for its subscribers. ``log_bytes`` are those of its change list."""

    table: str
    feed: str
    subscribers: int
    log_bytes: int
    reading: SubscriptionFigures | None


class Sample(NamedTuple):
    """One number of a metric."""

    value: float
    labels: Mapping[str, str] = {}


def metrics_text(
    counts: ServeCounts,
    streams: Mapping[str, int],
    readers: Mapping[str, int],
    tables: Iterable[TableFigures],
    own_bytes: int = 0,
) -> str:
    """Return all metrics. ``streams`` and ``readers`` say how many streams and readers are open, by
    ``shared`` and ``own``; ``own_bytes`` is how many bytes the subscriptions keep of their own.

    A table whose columns changed has two readers for a while. Their figures become one.
    """
    tables = _one_a_table(tables)
    parts = [
        _metric("subscriptions", "gauge", "open subscriptions", _by("reader", streams)),
        _metric("readers", "gauge", "readers of Kafka", _by("kind", readers)),
        _metric("batches_total", "counter", "batches given to clients", _by("output", counts.batches)),
        _metric("rows_total", "counter", "rows of these batches", _by("output", counts.rows)),
        _metric("own_bytes", "gauge", "what subscriptions keep by themselves", [Sample(own_bytes)]),
        _metric(
            "slow_clients_total",
            "counter",
            "how often a client was so slow that changes it still needed had been dropped",
            [Sample(counts.behind)],
        ),
        _metric(
            "refused_logins_total", "counter", "logins that were refused", _by("front", counts.refused_logins)
        ),
        _metric(
            "table_subscribers",
            "gauge",
            "subscribers of a shared reader",
            _of(tables, lambda t: t.subscribers),
        ),
        _metric("table_log_bytes", "gauge", "changes that are held", _of(tables, lambda t: t.log_bytes)),
        *(_metric(name, "gauge", what, _of(tables, _of_reading(read))) for name, what, read in _READING),
    ]
    return "".join(parts)


def _one_a_table(tables: Iterable[TableFigures]) -> list[TableFigures]:
    """Return one entry for each table and feed, since each series may come only once.

    Subscribers and held bytes of equal tables and feeds are added up. If several entries have a ``reading``,
    the last one counts.
    """
    found: dict[tuple[str, str], TableFigures] = {}
    for each in tables:
        place = each.table, each.feed
        before = found.get(place)
        if before is not None:
            each = replace(
                each,
                subscribers=before.subscribers + each.subscribers,
                log_bytes=before.log_bytes + each.log_bytes,
                reading=each.reading or before.reading,
            )
        found[place] = each
    return list(found.values())


_Read: TypeAlias = Callable[[SubscriptionFigures], float | None]
_READING: Final[tuple[tuple[str, str, _Read], ...]] = (
    ("table_lag_seconds", "how far what is complete is behind the clock", lambda each: each.lag_s),
    ("table_waiting_rows", "rows that wait for other partitions", lambda each: each.waiting_rows),
    ("table_waiting_bytes", "bytes of these rows", lambda each: each.waiting_bytes),
    ("table_spilled_bytes", "bytes of these rows that are on disk", lambda each: each.spilled_bytes),
    ("table_paused_partitions", "partitions that are paused", lambda each: each.paused_partitions),
    (
        "table_retention_margin_records",
        "records left between the deleted ones and the first that a resume would read",
        lambda each: each.retention_margin,
    ),
)


def _by(label: str, numbers: Mapping[str, int]) -> list[Sample]:
    return [Sample(number, {label: name}) for name, number in sorted(numbers.items())]


def _of_reading(read: _Read) -> Callable[[TableFigures], float | None]:
    return lambda table: None if table.reading is None else read(table.reading)


def _of(tables: Iterable[TableFigures], read: Callable[[TableFigures], float | None]) -> Iterator[Sample]:
    for table in tables:
        value = read(table)
        if value is not None:
            yield Sample(value, {"table": table.table, "feed": table.feed})


def _metric(name: str, kind: str, what: str, samples: Iterable[Sample]) -> str:
    full = f"tidegate_serve_{name}"
    lines = [f"# HELP {full} {what}", f"# TYPE {full} {kind}"]
    for sample in samples:
        labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in sample.labels.items())
        lines.append(f"{full}{{{labels}}} {sample.value!r}" if labels else f"{full} {sample.value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
