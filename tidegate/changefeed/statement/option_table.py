"""The options of CREATE CHANGEFEED, one line each: this table is the only list of them.

A line has the option's name, the form of its value, the field of ``FeedOptions`` that it becomes, and the
users, whose code reads that field. The field has the option's default. For an option that this version
refuses the line has the reason. `option_clauses` reads statements by this table. `option_conflicts` says
which options exclude each other.

Sources: CockroachDB ``pkg/ccl/changefeedccl/changefeedbase/options.go``; the RFC "Change Data Capture" for
the envelope names ``none`` and ``diff``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.extra_headers import read_extra_headers
from tidegate.changefeed.definition.options import (
    Envelope,
    ExistingTopics,
    Format,
    InitialScan,
    OnOversize,
    VirtualColumns,
)
from tidegate.changefeed.encoding.envelopes.registry import FORMS
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.changefeed.statement.option_texts import (
    check_namespace,
    check_registry,
    check_row_bytes,
    read_enriched_properties,
)
from tidegate.changefeed.statement.option_users import User
from tidegate.hlc import parse_decimal

#: Reads an option's text: (text, wall clock in Unix nanoseconds) -> the text in its standard form. Raises
#: ``StatementError``.
ReadText: TypeAlias = Callable[[str, int], str]


class Takes(Enum):
    """Whether an option has a value."""

    NOTHING = "no value"
    VALUE = "a value"
    EITHER = "a value or none"


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: as a statement has it, in lower case.
        takes: whether it has a value.
        choices: the values that it takes, without case; empty where any text will do.
        refused_choices: those of ``choices`` that this version knows and refuses.
        duration: whether its value is a duration.
        positive: whether that duration has to be above zero.
        read: checks its text and puts it into its standard form; None where the text is taken as it is.
        field: the field of ``FeedOptions`` that it becomes; empty if `option_clauses` sets the field by its
            own rule, or if there is no field.
        to_field: what the field holds for a text; a flag's text is empty.
        users: those whose modules read it, beside the parser; none for an option that is refused.
        refused: why this version refuses it; empty for an option that is supported.
    """

    name: str
    takes: Takes = Takes.VALUE
    choices: tuple[str, ...] = ()
    refused_choices: tuple[str, ...] = ()
    duration: bool = False
    positive: bool = False
    read: ReadText | None = None
    field: str = ""
    to_field: Callable[[str], Any] = str
    users: tuple[User, ...] = ()
    refused: str = ""


def _flag(name: str, *users: User) -> Option:
    return Option(name, Takes.NOTHING, field=name, to_field=lambda _: True, users=users)


def _text(name: str, *users: User, read: ReadText | None = None) -> Option:
    return Option(name, read=read, field=name, users=users)


def _choice(name: str, values: type[Enum], *users: User) -> Option:
    choices = tuple(each.value for each in values)
    return Option(name, choices=choices, field=name, to_field=values, users=users)


def _refused(name: str, reason: str, takes: Takes = Takes.VALUE, **form: Any) -> Option:
    return Option(name, takes, refused=reason, **form)


#: The envelopes by all their names, the older ones too. ``diff`` is the wrapped envelope with the option
#: ``diff``, which `option_clauses` sets.
ENVELOPES: Final[Mapping[str, Envelope]] = {
    **{each.value: each for each in Envelope},
    **{alias: form.envelope for form in FORMS for alias in form.aliases},
    "diff": Envelope.WRAPPED,
}
_FORMATS: Final[Mapping[str, Format]] = {
    "json": Format.JSON,
    "avro": Format.AVRO,
    "experimental_avro": Format.AVRO,
    "csv": Format.CSV,
}
_REFUSED_FORMATS: Final = ("parquet", "protobuf")

_FILES: Final = "it is for sinks that are files"
_GARBAGE: Final = "the store's garbage collection is not tidegate's to hold back"
_LAGGING: Final = "`tidegate why` and /metrics tell of ranges that fall behind"
_PACE: Final = "checkpoints are written at the pace of the worker's settings"
_SCHEMA_CHANGES: Final = "a feed goes on over every change of its tables' columns"
_USERS_OF_SCANS: Final = (
    *(User.JOBS, User.PROCESSORS, User.BACKFILL, User.LOADER),
    *(User.SUBSCRIPTIONS, User.COMMANDS),
)

_ALL: Final = (
    _text("avro_schema_prefix", User.RECORDS, User.NAMES, User.PREPARATION, read=check_namespace),
    _refused("compression", _FILES, choices=("gzip", "zstd")),
    _text(
        "confluent_schema_registry",
        User.PREPARATION,
        User.MARKERS,
        User.WORKERS,
        User.SPARK,
        User.BACKFILL,
        User.COMMANDS,
        User.SECRETS,
        read=check_registry,
    ),
    _flag("connect_schema", User.RECORDS, User.LOADER, User.SUBSCRIPTIONS),
    Option(
        "cursor",
        read=lambda text, now: read_cursor(text, now).decimal(),
        field="cursor",
        to_field=parse_decimal,
        users=(User.JOBS, User.PROCESSORS, User.BACKFILL, User.COMMANDS),
    ),
    Option("diff", Takes.NOTHING, users=(User.RECORDS, User.PROCESSORS, User.SUBSCRIPTIONS, User.COMMANDS)),
    _flag("encode_json_value_null_as_object", User.RECORDS),
    _refused("end_time", "a feed goes on until it is dropped"),
    Option(
        "enriched_properties",
        Takes.EITHER,
        read=read_enriched_properties,
        field="enriched_properties",
        users=(User.RECORDS,),
    ),
    Option(
        "envelope",
        choices=tuple(ENVELOPES),
        field="envelope",
        to_field=ENVELOPES.__getitem__,
        users=(
            User.RECORDS,
            User.PREPARATION,
            User.PROCESSORS,
            User.LOADER,
            User.SUBSCRIPTIONS,
            User.COMMANDS,
        ),
    ),
    _refused("execution_locality", "where workers run is the operator's choice"),
    _choice("existing_topics", ExistingTopics, User.PREPARATION),
    _text(
        "extra_headers",
        User.RECORDS,
        User.SECRETS,
        User.PREPARATION,
        read=lambda text, _: read_extra_headers(text),
    ),
    Option(
        "format",
        choices=(*_FORMATS, *_REFUSED_FORMATS),
        refused_choices=_REFUSED_FORMATS,
        field="format",
        to_field=_FORMATS.__getitem__,
        users=(User.RECORDS, User.WORKERS, User.LOADER, User.SUBSCRIPTIONS, User.COMMANDS),
    ),
    _flag("full_table_name", User.NAMES),
    _refused("gc_protect_expires_after", _GARBAGE, duration=True),
    _text("headers_json_column_name", User.RECORDS, User.LOADER),
    _refused("ignore_disable_changefeed_replication", "the log has all changes", Takes.NOTHING),
    Option(
        "initial_scan",
        Takes.EITHER,
        choices=tuple(each.value for each in (InitialScan.YES, InitialScan.NO, InitialScan.ONLY)),
        users=_USERS_OF_SCANS,
    ),
    Option("initial_scan_only", Takes.NOTHING, users=_USERS_OF_SCANS),
    _refused("kafka_sink_config", "the operator's file of destinations says what a producer is told"),
    _text("key_column", User.RECORDS, User.LOADER, User.SUBSCRIPTIONS, User.COMMANDS),
    _flag("key_in_value", User.RECORDS),
    _refused("lagging_ranges_polling_interval", _LAGGING, duration=True, positive=True),
    _refused("lagging_ranges_threshold", _LAGGING, duration=True, positive=True),
    Option("max_row_bytes", read=check_row_bytes, users=(User.RECORDS, User.PREPARATION)),
    _refused("metrics_label", "metrics have the feed's identity as a label"),
    _refused("min_checkpoint_frequency", _PACE, duration=True),
    _flag("mvcc_timestamp", User.RECORDS),
    Option("no_initial_scan", Takes.NOTHING, users=_USERS_OF_SCANS),
    Option("on_error", choices=("fail", "pause"), refused_choices=("pause",)),
    _choice("on_oversize", OnOversize, User.RECORDS, User.PREPARATION),
    _refused("protect_data_from_gc_on_pause", _GARBAGE, Takes.NOTHING),
    _refused("pubsub_sink_config", "the only sink is Kafka"),
    Option(
        "resolved",
        Takes.EITHER,
        duration=True,
        field="resolved_interval_ns",
        to_field=lambda text: parse_duration(text or "0"),
        users=(
            User.RECORDS,
            User.JOBS,
            User.PREPARATION,
            User.PROCESSORS,
            User.WORKERS,
            User.SPARK,
            User.LOADER,
            User.SUBSCRIPTIONS,
        ),
    ),
    _text(
        "resolved_topic",
        User.RECORDS,
        User.NAMES,
        User.JOBS,
        User.PREPARATION,
        User.PROCESSORS,
        User.WORKERS,
        User.SPARK,
        User.LOADER,
        User.COMMANDS,
    ),
    _refused("schema_change_events", _SCHEMA_CHANGES, choices=("default", "column_changes")),
    _refused("schema_change_policy", _SCHEMA_CHANGES, choices=("backfill", "nobackfill", "stop", "ignore")),
    _refused("split_column_families", "tables with several column families are refused", Takes.NOTHING),
    _flag("topic_in_value", User.RECORDS),
    _text("topic_prefix", User.RECORDS, User.NAMES),
    _flag("unordered"),
    _flag("updated", User.RECORDS, User.LOADER, User.SUBSCRIPTIONS),
    _choice("virtual_columns", VirtualColumns, User.RECORDS, User.LOADER),
    _refused("webhook_auth_header", "the only sink is Kafka"),
    _refused("webhook_client_timeout", "the only sink is Kafka", duration=True),
    _refused("webhook_sink_config", "the only sink is Kafka"),
)


def _by_name(options: Iterable[Option]) -> Mapping[str, Option]:
    return {option.name: option for option in options}


#: Every option that is known, supported or not.
KNOWN_OPTIONS: Final = _by_name(_ALL)
#: The options that this version takes; the others are refused by name.
SUPPORTED_OPTIONS: Final = tuple(option.name for option in _ALL if not option.refused)
