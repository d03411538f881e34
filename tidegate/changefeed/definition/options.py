"""The options of a feed, in the form in which the rest of the program uses them.

``option_clauses`` makes them from a statement's WITH clauses.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from tidegate.changefeed.definition.extra_headers import standard_headers
from tidegate.changefeed.definition.registry_uri import RegistryUri, parse_registry_uri
from tidegate.changefeed.definition.stored_fields import flag, text, whole
from tidegate.hlc import Timestamp, parse_decimal


class Format(enum.Enum):
    """The encoding of keys and values."""

    JSON = "json"
    AVRO = "avro"
    """Confluent's framing: each key and value names its schema, which the schema registry has."""
    CSV = "csv"
    """The row's columns, separated by commas; for initial scans only."""


class Envelope(enum.Enum):
    """The form of a record's value. ``encoding/envelopes/`` has a module for each."""

    WRAPPED = "wrapped"
    """``{"after": {...}}``, and beside it the members that options ask for; a deletion has
    ``"after": null``."""
    ROW = "row"
    """The row itself, timestamps under ``__crdb__``; a deletion has an empty value."""
    KEY_ONLY = "key_only"
    """Every record has an empty value."""
    BARE = "bare"
    """The row itself, all metadata under ``__crdb__``; a deletion has its key columns and nulls."""
    ENRICHED = "enriched"
    """The wrapped envelope with ``op`` and ``ts_ns``; its key is an object."""
    UPSERT = "upsert"
    """The row itself and nothing else; a deletion has no value, as log compaction and sinks expect it."""
    DEBEZIUM = "debezium"
    """Debezium's ``before``, ``after``, ``op``, ``source`` and ``ts_ms``; a deletion is followed by a
    record without a value."""


class VirtualColumns(enum.Enum):
    """The ways to show virtual computed columns, which have no stored value, in records."""

    OMITTED = "omitted"
    NULL = "null"


class OnOversize(enum.Enum):
    """The ways to treat a row above the limit."""

    FAIL = "fail"
    """The limit is that of the producer and the broker, and the feed fails at a row that they refuse."""
    KEY_ONLY = "key_only"
    """A row above ``max_row_bytes`` is written without its value (``oversize.py``)."""


class ExistingTopics(enum.Enum):
    """The ways to treat a feed whose topics somebody else has created."""

    REFUSE = "refuse"
    """The feed fails before it writes anything."""
    USE = "use"
    """The feed writes to those topics."""


class InitialScan(enum.Enum):
    """Whether a feed begins with the rows that its tables have at its start."""

    NO = "no"
    YES = "yes"
    ONLY = "only"
    """The feed writes these rows and nothing after them. Then it has succeeded."""


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options of one feed, which say what it emits.

    The defaults are CockroachDB's, except that of the initial scan: definitions from before there were scans
    do not name it, and their feeds began without one. A definition of today always names it.

    ``resolved_interval_ns`` is the least distance between two markers in HLC nanoseconds: 0 for a marker at
    every advance, ``None`` for no markers. ``resolved_topic`` is the topic of the markers; if it is empty,
    they go to the topics of the rows. ``topic_prefix`` stands before the name of every topic of rows.
    ``key_column`` and ``headers_json_column_name`` are column names, empty for none. ``connect_schema`` wraps
    JSON keys and values as ``{"schema": ..., "payload": ...}``. ``enriched_properties`` is ``schema``,
    ``source``, or both with a comma between. ``confluent_schema_registry`` is a URL, ``extra_headers`` the
    standard form that ``extra_headers.py`` reads; both may hold secrets and stay out of ``repr``.

    ``cursor`` is the start of a feed that starts in the past: it emits versions above it. With
    ``on_oversize`` ``key_only`` a row of more than ``max_row_bytes`` bytes is written without its value; 0
    stands for no limit.
    """

    format: Format = Format.JSON
    envelope: Envelope = Envelope.WRAPPED
    updated: bool = False
    mvcc_timestamp: bool = False
    resolved_interval_ns: int | None = None
    topic_prefix: str = ""
    diff: bool = False
    key_in_value: bool = False
    topic_in_value: bool = False
    full_table_name: bool = False
    key_column: str = ""
    unordered: bool = False
    headers_json_column_name: str = ""
    connect_schema: bool = False
    resolved_topic: str = ""
    avro_schema_prefix: str = ""
    confluent_schema_registry: str = field(default="", repr=False)
    virtual_columns: VirtualColumns = VirtualColumns.OMITTED
    encode_json_value_null_as_object: bool = False
    extra_headers: str = field(default="", repr=False)
    enriched_properties: str = ""
    initial_scan: InitialScan = InitialScan.NO
    cursor: Timestamp | None = None
    on_oversize: OnOversize = OnOversize.FAIL
    max_row_bytes: int = 0
    existing_topics: ExistingTopics = ExistingTopics.REFUSE

    @property
    def registry(self) -> RegistryUri | None:
        """The schema registry, if any. Raises ``StatementError`` for a URL that this version cannot read."""
        text = self.confluent_schema_registry
        return parse_registry_uri(text) if text else None

    @property
    def enriched_source(self) -> bool:
        """Whether enriched records name the table of their row."""
        return "source" in self.enriched_properties

    @property
    def enriched_schema(self) -> bool:
        """Whether enriched records in JSON have their schema beside them."""
        return "schema" in self.enriched_properties and self.format is Format.JSON

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; the cursor is an HLC decimal."""
        return {each.name: _stored(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FeedOptions:
        """Read the stored form, also that of an earlier version, which has fewer options.

        Raises ``KeyError`` or ``ValueError`` for anything else.
        """
        values = {
            each.name: _restored(stored, each.name)
            for each in fields(cls)
            if each.name in stored or each.name in _ALWAYS_STORED
        }
        standard_headers(values.get("extra_headers", ""))
        return cls(**values)


#: Options that every version has stored.
_ALWAYS_STORED: Final = frozenset({"format", "envelope"})


def _restored(stored: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field from its stored form.

    The field's default tells the type. A field whose default is ``None`` is read as a whole number, except
    ``cursor``.
    """
    match getattr(DEFAULT_OPTIONS, name):
        case enum.Enum() as default:
            return type(default)(stored[name])
        case bool():
            return flag(stored, name)
        case str():
            return text(stored, name)
        case None if stored[name] is None:
            return None
        case None if name == "cursor":
            return parse_decimal(stored[name])
        case _:
            return whole(stored, name)


def _stored(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return value.decimal() if isinstance(value, Timestamp) else value


DEFAULT_OPTIONS: Final = FeedOptions()
