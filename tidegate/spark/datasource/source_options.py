"""The options of ``format("tidegate")``, as one object that is checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.errors import SettingsError
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.spark.warehouse.buckets import Buckets

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_MARKER: Final = "marker"
#: A task keeps key and timestamp of each row: about 200 bytes for each record.
BATCH_RECORDS: Final = 1_000_000
#: The options, with the meaning of their values.
_OPTIONS: Final = {
    "bootstrap": "Kafka brokers as host:port, comma-separated; by default TIDEGATE_BOOTSTRAP_SERVERS",
    "app_id": "the application of the workers; by default TIDEGATE_APP_ID, else tidegate",
    "topic_prefix": "the prefix of the log topic; by default TIDEGATE_TOPIC_PREFIX, else none",
    "feed": "the id of the feed; not needed where the application has one",
    "tables": "some of the feed's tables, comma-separated; by default all",
    "start": "earliest, latest, or an HLC timestamp: where a new stream begins; by default earliest",
    "cut": "marker, or a duration such as 1m: where a batch may end; by default marker",
    "batch_records": "how many records a batch may read, at least 1; by default 1000000",
    "as_text": "columns to have as text, comma-separated, as column or table.column; JSON feeds alone",
    "as_of": "an HLC timestamp: what a batch query shows; by default the newest that is complete",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a DataFrame, as the user has given them.

    Attributes:
        bootstrap, app_id, topic_prefix: where the feed is; empty: the environment's settings count.
        feed: its id; empty for the only one.
        tables: the tables to read; none for all.
        start: where a stream begins. ``None``: at the newest cut; zero: at the beginning of the topics;
            another timestamp: above it.
        buckets: where batches end; ``None`` for every marker.
        batch_records: how many records a stream's batch may read. docs/spark-dataframe.md#bounds says when
            it reads more.
        as_of: what a batch query shows; ``None`` for the newest cut.
        as_text: columns that are text, as ``<column>`` or ``<table>.<column>``.
    """

    bootstrap: str = ""
    app_id: str = ""
    topic_prefix: str = ""
    feed: str = ""
    tables: tuple[str, ...] = ()
    start: Timestamp | None = ZERO
    buckets: Buckets | None = None
    batch_records: int = BATCH_RECORDS
    as_of: Timestamp | None = None
    as_text: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read Spark's options, whose names may be in lower or upper case.

        Raises ``SettingsError`` for an option that is not known, or whose value cannot be used.
        """
        given = {name.lower(): value.strip() for name, value in options.items()}
        if unknown := sorted(given.keys() - _OPTIONS.keys()):
            raise SettingsError(
                f"format('tidegate') has no option {unknown[0]!r}. It has {', '.join(_OPTIONS)}."
            )
        start, cut, as_of = given.get("start", EARLIEST), given.get("cut", _MARKER), given.get("as_of")
        return cls(
            given.get("bootstrap", ""),
            given.get("app_id", ""),
            given.get("topic_prefix", ""),
            given.get("feed", ""),
            tables=_names(given.get("tables", "")),
            start=_start(start),
            buckets=None if cut == _MARKER else _buckets(cut),
            batch_records=_records(given.get("batch_records", str(BATCH_RECORDS))),
            as_of=None if as_of is None else _timestamp("as_of", as_of),
            as_text=_names(given.get("as_text", "")),
        )


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _start(text: str) -> Timestamp | None:
    if text == LATEST:
        return None
    return ZERO if text == EARLIEST else _timestamp("start", text)


def _timestamp(name: str, text: str) -> Timestamp:
    try:
        return parse_decimal(text)
    except ValueError as error:
        raise SettingsError(f"The option {name} cannot be used: {error}. It is {_OPTIONS[name]}.") from None


def _records(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:19]) >= 1 and len(text) < 19):
        raise SettingsError(
            f"The option batch_records cannot be used: {text[:40]!r} is no number of records. It is "
            f"{_OPTIONS['batch_records']}."
        )
    return int(text)


def _buckets(text: str) -> Buckets:
    try:
        return Buckets(parse_duration(text))
    except (ValueError, SettingsError) as error:
        raise SettingsError(f"The option cut cannot be used: {error}. It is {_OPTIONS['cut']}.") from None
