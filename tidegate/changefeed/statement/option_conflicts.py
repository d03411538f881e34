"""The options of CREATE CHANGEFEED that exclude each other, and the sentence for each pair.

Sources: CockroachDB ``pkg/ccl/changefeedccl/changefeedbase/options.go`` and the encoders beside it. Error
texts begin as the source's do, because people search for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tidegate.changefeed.definition.options import Envelope, Format
from tidegate.changefeed.encoding.envelopes.envelope_form import EnvelopeForm, Room
from tidegate.changefeed.encoding.envelopes.registry import FORMS, form_of
from tidegate.changefeed.statement.option_table import ENVELOPES

#: Option names and values, as given; a flag's value is empty.
Given: TypeAlias = Mapping[str, str]
_Conflict: TypeAlias = Callable[[Given], str]

_SCAN_OPTIONS: Final = ("initial_scan", "no_initial_scan", "initial_scan_only")
_NOT_WITH_SCAN_ONLY: Final = ("end_time", "resolved", "diff", "mvcc_timestamp", "updated")
_MEMBERS: Final = ("key_in_value", "topic_in_value", "updated", "mvcc_timestamp", "diff")


def find_conflict(given: Given) -> str:
    """Return why these options cannot be combined; an empty text if they can.

    The caller has checked that every option is known and has a value that it takes.
    """
    return next(filter(None, (conflict(given) for conflict in _CONFLICTS)), "")


def _two_scan_options(given: Given) -> str:
    named = [name for name in _SCAN_OPTIONS if name in given]
    if named == ["no_initial_scan", "initial_scan_only"]:
        return "cannot specify both initial_scan='only' and no_initial_scan"
    return f"cannot specify both {named[0]} and {named[1]}" if len(named) > 1 else ""


def _scan_only(given: Given) -> bool:
    return given.get("initial_scan") == "only" or "initial_scan_only" in given


def _changes_without_changes(given: Given) -> str:
    if not _scan_only(given):
        return ""
    asked = {*given, "diff"} if given.get("envelope") == "diff" else {*given}
    named = next((name for name in _NOT_WITH_SCAN_ONLY if name in asked), None)
    return f"cannot specify both initial_scan='only' and {named}" if named else ""


def _csv_with_changes(given: Given) -> str:
    if _format(given) == "csv" and not _scan_only(given):
        return "format=csv is only usable with initial_scan_only"
    return ""


def _csv_without_room(given: Given) -> str:
    """Refuse options that add to a record: a CSV record has only the row's columns and an empty key."""
    if _format(given) != "csv":
        return ""
    form = _form(given)
    if form.envelope is Envelope.ENRICHED:
        return (
            "envelope=enriched is only usable with format=json/avro: a CSV record has only the row's columns"
        )
    if Format.CSV not in form.formats:
        return f"envelope={form.name} is not usable with format=csv, which has only the row's columns"
    named = next((name for name in ("key_column", "key_in_value", "topic_in_value") if name in given), None)
    return f"{named} is not usable with format=csv, which has only the row's columns" if named else ""


def _parquet_topic(given: Given) -> str:
    if _format(given) == "parquet" and "topic_in_value" in given:
        return "cannot specify both format=parquet and topic_in_value"
    return ""


def _unordered_markers(given: Given) -> str:
    if "unordered" in given and "resolved" in given:
        return (
            "unordered is not usable with resolved because resolved timestamps cannot be guaranteed to be "
            "correct in unordered mode"
        )
    return ""


def _ordered_key_column(given: Given) -> str:
    if "key_column" in given and "unordered" not in given:
        return (
            "key_column requires the unordered option because using a value other than the primary key as "
            "the message key means end-to-end ordering cannot be preserved"
        )
    return ""


def _without_avro(given: Given) -> str:
    form = _form(given)
    if _format(given) == "avro" and Format.AVRO not in form.formats:
        return f"envelope={form.name} is not supported with format=avro"
    return ""


def _json_only(given: Given) -> str:
    if "encode_json_value_null_as_object" in given and _format(given) != "json":
        return "encode_json_value_null_as_object is only usable with format=json"
    return ""


def _json_text(given: Given) -> str:
    if "encode_json_value_null_as_object" in given and "connect_schema" in given:
        return (
            "encode_json_value_null_as_object is not usable with connect_schema, where JSON null is the text "
            "null, apart from NULL"
        )
    return ""


def _enriched_only(given: Given) -> str:
    if "enriched_properties" in given and _form(given).envelope is not Envelope.ENRICHED:
        return "enriched_properties is only usable with envelope=enriched"
    return ""


def _members_without_room(given: Given) -> str:
    """Refuse members beside the row in envelopes that have no place for them, except in JSON and Parquet."""
    if _form(given).room is Room.AROUND_ROW or _format(given) in ("json", "parquet"):
        return ""
    named = next((name for name in _MEMBERS if name in given), None)
    return f"{named} is only usable with envelope=wrapped or envelope=enriched" if named else ""


def _json_members_without_room(given: Given) -> str:
    if _format(given) != "json" or _form(given).room not in (Room.TIMESTAMPS, Room.NOWHERE):
        return ""
    named = next((name for name in ("key_in_value", "topic_in_value") if name in given), None)
    return f"{named} is only usable with envelope=wrapped" if named else ""


def _avro_members(given: Given) -> str:
    named = next((name for name in ("key_in_value", "topic_in_value") if name in given), None)
    return f"{named} is not supported with format=avro" if named and _format(given) == "avro" else ""


def _avro_registry(given: Given) -> str:
    if _format(given) == "avro" and "confluent_schema_registry" not in given:
        return "confluent_schema_registry is required for format=avro"
    return ""


def _avro_only(given: Given) -> str:
    if _format(given) == "avro":
        return ""
    named = next(
        (name for name in ("confluent_schema_registry", "avro_schema_prefix") if name in given), None
    )
    return f"{named} is only usable with format=avro" if named else ""


def _whole_rows(given: Given) -> str:
    """Refuse members in envelopes of fixed members, which have no place for them or have them already."""
    form = _form(given)
    if form.room is not Room.FIXED:
        return ""
    named = next((name for name in _MEMBERS if name in given), None)
    return f"{named} is not usable with envelope={form.name}, which {form.fixed_members}" if named else ""


def _connect_schema(given: Given) -> str:
    if "connect_schema" not in given:
        return ""
    if _format(given) != "json" or not _form(given).for_sinks:
        usable = " or ".join(f"envelope={each.name}" for each in FORMS if each.for_sinks)
        return f"connect_schema is only usable with format=json and {usable}"
    return ""


def _virtual_nulls(given: Given) -> str:
    """Refuse nulls for virtual columns in rows that sinks store: a null would replace the value that the
    sink's database computes.
    """
    form = _form(given)
    if given.get("virtual_columns") != "null" or not form.for_sinks:
        return ""
    return f"virtual_columns='null' is not usable with envelope={form.name}, whose rows sinks store"


def _headers_format(given: Given) -> str:
    if "headers_json_column_name" in given and _format(given) != "json":
        return "headers_json_column_name is only usable with format=json"
    return ""


def _markers_nowhere(given: Given) -> str:
    if "resolved_topic" in given and "resolved" not in given:
        return "resolved_topic requires the resolved option: without it there are no markers"
    return ""


def _markers_among_changes(given: Given) -> str:
    """Refuse markers among Avro rows for sinks: one subject cannot have the schemas of two
    records.
    """
    form = _form(given)
    if _format(given) != "avro" or not form.for_sinks:
        return ""
    if "resolved" not in given or "resolved_topic" in given:
        return ""
    return (
        f"resolved with format=avro and envelope={form.name} requires the resolved_topic option: "
        "a subject takes the schema of markers or of rows, not both"
    )


def _limit_without_use(given: Given) -> str:
    if "max_row_bytes" in given and given.get("on_oversize") != "key_only":
        return (
            "max_row_bytes is only usable with on_oversize='key_only': without it the limits of the producer "
            "and the topic count"
        )
    return ""


def _empty_values_that_mean_something(given: Given) -> str:
    """Refuse ``on_oversize='key_only'`` if an empty value means something else already, or if keys do not
    say which row was left out.
    """
    if given.get("on_oversize") != "key_only":
        return ""
    form = _form(given)
    if not form.may_leave_out:
        return f"on_oversize='key_only' is not usable with envelope={form.name}, {form.empty_value}"
    if _format(given) == "csv":
        return "on_oversize='key_only' is not usable with format=csv, whose records have no key"
    if "key_column" in given:
        return "on_oversize='key_only' is not usable with key_column, whose keys do not say which row it was"
    return ""


def _format(given: Given) -> str:
    return given.get("format", "json").removeprefix("experimental_")


def _form(given: Given) -> EnvelopeForm:
    return form_of(ENVELOPES[given.get("envelope", "wrapped")])


_CONFLICTS: Final[tuple[_Conflict, ...]] = (
    _two_scan_options,
    _changes_without_changes,
    _csv_with_changes,
    _csv_without_room,
    _parquet_topic,
    _unordered_markers,
    _ordered_key_column,
    _without_avro,
    _json_only,
    _json_text,
    _enriched_only,
    _members_without_room,
    _json_members_without_room,
    _avro_members,
    _avro_registry,
    _avro_only,
    _whole_rows,
    _connect_schema,
    _virtual_nulls,
    _headers_format,
    _markers_nowhere,
    _markers_among_changes,
    _limit_without_use,
    _empty_values_that_mean_something,
)
