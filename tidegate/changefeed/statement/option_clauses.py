"""The WITH clauses of a statement into ``FeedOptions``.

Checked in this order: every option is known and has a value that it takes; none excludes another; this
version supports all of them. So a combination that can never work is not reported as merely missing yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.extra_headers import read_extra_headers
from tidegate.changefeed.definition.names import avro_namespace_fault
from tidegate.changefeed.definition.options import (
    Envelope,
    ExistingTopics,
    FeedOptions,
    Format,
    InitialScan,
    OnOversize,
    VirtualColumns,
)
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.changefeed.definition.quoted_value import quoted
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.changefeed.statement.option_catalogue import (
    KNOWN_OPTIONS,
    SUPPORTED_OPTIONS,
    KnownOption,
    Takes,
    find_conflict,
)
from tidegate.errors import StatementError
from tidegate.hlc import parse_decimal

_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_MOST_ROW_BYTES: Final = 1_000_000_000  # as large as a record of librdkafka may be
_ENVELOPES: Final[Mapping[str, Envelope]] = {
    "wrapped": Envelope.WRAPPED,
    "row": Envelope.ROW,
    "none": Envelope.ROW,
    "deprecated_row": Envelope.ROW,
    "diff": Envelope.WRAPPED,
    "key_only": Envelope.KEY_ONLY,
    "bare": Envelope.BARE,
    "enriched": Envelope.ENRICHED,
    "upsert": Envelope.UPSERT,
    "debezium": Envelope.DEBEZIUM,
}
_FORMATS: Final[Mapping[str, Format]] = {
    "json": Format.JSON,
    "avro": Format.AVRO,
    "experimental_avro": Format.AVRO,
    "csv": Format.CSV,
}
_SUPPORTED_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "format": tuple(_FORMATS),
}
_ENRICHED_PROPERTIES: Final = ("schema", "source")
#: Options that are a field of ``FeedOptions`` by the same name.
_FLAGS: Final = (
    *("connect_schema", "encode_json_value_null_as_object", "full_table_name", "key_in_value"),
    *("mvcc_timestamp", "topic_in_value", "unordered", "updated"),
)
_TEXTS: Final = (
    *("avro_schema_prefix", "confluent_schema_registry", "enriched_properties", "extra_headers"),
    *("headers_json_column_name", "key_column", "resolved_topic", "topic_prefix"),
)


class OptionClause(NamedTuple):
    """One ``name [= value]``; ``position`` is its offset in the statement, -1 outside of one."""

    name: str
    value: str | None = None
    position: int = -1


def read_options(clauses: Sequence[OptionClause], now_ns: int) -> FeedOptions:
    """The options that the clauses ask for; ``now_ns`` is the wall clock that a cursor is measured by.

    Raises ``StatementError`` at the clause's position for what is unknown, malformed, contradictory or not
    supported.
    """
    given: dict[str, str] = {}
    for clause in clauses:
        if clause.name in given:
            raise StatementError(f"option {clause.name} is given twice", clause.position)
        given[clause.name] = _checked_value(clause)
    conflict = find_conflict(given)
    if conflict:
        raise StatementError(conflict, _last_named(clauses, conflict))
    for clause in clauses:
        _refuse_unsupported(clause, given[clause.name])
        given[clause.name] = _read_text(clause, given[clause.name], now_ns)
    return _options(given)


def _last_named(clauses: Sequence[OptionClause], text: str) -> int:
    """Where the last option that the text names stands: the one that the user added.

    An older name, or the envelope ``diff``, is told by the option that it stands for: then the value is.
    """
    words = set(_WORD.findall(text))
    named = [clause.position for clause in clauses if clause.name in words]
    valued = [clause.position for clause in clauses if (clause.value or "").lower() in words]
    return max(named or valued)


def _options(given: Mapping[str, str]) -> FeedOptions:
    envelope = given.get("envelope", "wrapped")
    named: dict[str, Any] = {name: name in given for name in _FLAGS}
    named |= {name: given.get(name, "") for name in _TEXTS}
    return FeedOptions(
        format=_FORMATS[given.get("format", "json")],
        envelope=_ENVELOPES[envelope],
        diff="diff" in given or envelope == "diff",
        virtual_columns=VirtualColumns(given.get("virtual_columns", VirtualColumns.OMITTED.value)),
        resolved_interval_ns=parse_duration(given["resolved"] or "0") if "resolved" in given else None,
        initial_scan=_initial_scan(given),
        cursor=parse_decimal(given["cursor"]) if "cursor" in given else None,
        on_oversize=OnOversize(given.get("on_oversize", OnOversize.FAIL.value)),
        max_row_bytes=_max_row_bytes(given),
        existing_topics=ExistingTopics(given.get("existing_topics", ExistingTopics.REFUSE.value)),
        **named,
    )


def _initial_scan(given: Mapping[str, str]) -> InitialScan:
    """What one of three options says, or the default: a scan, unless the feed starts in the past."""
    if "initial_scan" in given:
        return InitialScan(given["initial_scan"] or InitialScan.YES.value)
    if "initial_scan_only" in given:
        return InitialScan.ONLY
    return InitialScan.NO if "no_initial_scan" in given or "cursor" in given else InitialScan.YES


def _max_row_bytes(given: Mapping[str, str]) -> int:
    """The limit that ``on_oversize`` goes by: a number of the definition, so that all decide alike."""
    if given.get("on_oversize") != OnOversize.KEY_ONLY.value:
        return 0
    return int(given.get("max_row_bytes", DEFAULT_MAX_ROW_BYTES))


def _checked_value(clause: OptionClause) -> str:
    """The clause's value, folded where case does not matter; empty for none."""
    known = KNOWN_OPTIONS.get(clause.name)
    if known is None:
        raise StatementError(_unknown_text(clause.name), clause.position)
    value = clause.value or ""
    if known.takes is Takes.NOTHING and clause.value is not None:
        raise StatementError(f"option {clause.name} takes no value", clause.position)
    if known.takes is Takes.VALUE and not value:
        raise StatementError(f"option {clause.name} requires a value", clause.position)
    if value and known.choices:
        return _checked_choice(clause, known, value.lower())
    if value and known.duration:
        _check_duration(clause, value)
    return value


def _checked_choice(clause: OptionClause, known: KnownOption, value: str) -> str:
    if value not in known.choices:
        choices = ", ".join(f"'{choice}'" for choice in known.choices)
        raise StatementError(f"unknown {clause.name}; valid values are {choices}", clause.position)
    return value


def _check_duration(clause: OptionClause, value: str) -> None:
    try:
        nanos = parse_duration(value)
    except ValueError as error:
        raise StatementError(f"problem parsing option {clause.name}: {error}", clause.position) from None
    if nanos < 0:
        raise StatementError(
            f"negative durations are not accepted: {clause.name}={quoted(value)}", clause.position
        )


def _read_text(clause: OptionClause, value: str, now_ns: int) -> str:
    """The value of an option whose text has a form of its own, in that form."""
    try:
        match clause.name:
            case "avro_schema_prefix":
                _check_namespace(value)
            case "confluent_schema_registry":
                parse_registry_uri(value)
            case "cursor":
                return read_cursor(value, now_ns).decimal()
            case "enriched_properties":
                return _enriched_properties(value)
            case "extra_headers":
                return read_extra_headers(value)
            case "max_row_bytes":
                _check_row_bytes(value)
    except StatementError as error:
        raise StatementError(str(error), clause.position) from None
    return value


def _check_namespace(prefix: str) -> None:
    fault = avro_namespace_fault(prefix)
    if fault:
        raise StatementError(fault)


def _check_row_bytes(text: str) -> None:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST_ROW_BYTES:
        raise StatementError(
            f"max_row_bytes is {quoted(text)}, and must be a whole number of bytes from 1 to"
            f" {_MOST_ROW_BYTES}"
        )


def _enriched_properties(value: str) -> str:
    """The properties in one standard order, each once. Raises ``StatementError`` for one that is none."""
    named = {name.strip().lower() for name in value.split(",")} - {""}
    unknown = named.difference(_ENRICHED_PROPERTIES)
    if unknown:
        choices = ", ".join(f"'{choice}'" for choice in _ENRICHED_PROPERTIES)
        raise StatementError(f"unknown enriched_properties; valid values are {choices}")
    return ",".join(sorted(named))


def _unknown_text(name: str) -> str:
    close = get_close_matches(name[:64], KNOWN_OPTIONS, n=1)
    if close:
        return f"unknown option; did you mean {close[0]}?"
    return f"unknown option; supported options: {', '.join(SUPPORTED_OPTIONS)}"


def _refuse_unsupported(clause: OptionClause, value: str) -> None:
    if clause.name not in SUPPORTED_OPTIONS:
        raise StatementError(
            f"option {clause.name} is not supported yet; supported options: {', '.join(SUPPORTED_OPTIONS)}",
            clause.position,
        )
    supported = _SUPPORTED_VALUES.get(clause.name)
    if supported is not None and value not in supported:
        raise StatementError(
            f"{clause.name}={value or 'yes'} is not supported yet; supported: "
            f"{', '.join(f'{clause.name}={choice}' for choice in supported)}",
            clause.position,
        )
