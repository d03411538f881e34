"""WITH clauses: what is read, what is refused, and in which words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given

from tests.unit.changefeed.feeds import options
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, InitialScan, VirtualColumns
from tidegate.changefeed.statement.option_clauses import OptionClause, read_options
from tidegate.changefeed.statement.option_conflicts import _CONFLICTS
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS, SUPPORTED_OPTIONS, Takes
from tidegate.errors import StatementError
from tidegate.hlc import Timestamp

REGISTRY = "http://127.0.0.1:8081"

NOW_NS = 1_700_000_000_000_000_000

SUPPORTED = (
    "avro_schema_prefix, confluent_schema_registry, connect_schema, cursor, diff, "
    "encode_json_value_null_as_object, enriched_properties, envelope, existing_topics, extra_headers, "
    "format, full_table_name, headers_json_column_name, initial_scan, initial_scan_only, key_column, "
    "key_in_value, max_row_bytes, mvcc_timestamp, no_initial_scan, on_oversize, resolved, resolved_topic, "
    "topic_in_value, topic_prefix, unordered, updated, virtual_columns"
)


def clauses(**given: str | None) -> list[OptionClause]:
    return [OptionClause(name, value, 10 * number) for number, (name, value) in enumerate(given.items())]


def read(given: list[OptionClause]) -> FeedOptions:
    return read_options(given, NOW_NS)


def scanned(**fields: Any) -> FeedOptions:
    """Options of a statement that says nothing of scans: the feed begins with one."""
    return FeedOptions(initial_scan=InitialScan.YES, **fields)


def refusal(**given: str | None) -> str:
    with pytest.raises(StatementError) as caught:
        read(clauses(**given))
    return str(caught.value)


@pytest.mark.parametrize(
    ("chosen", "scan"),
    [
        ({}, InitialScan.YES),
        ({"initial_scan": None}, InitialScan.YES),
        ({"initial_scan": "YES"}, InitialScan.YES),
        ({"initial_scan": "No"}, InitialScan.NO),
        ({"no_initial_scan": None}, InitialScan.NO),
        ({"initial_scan": "only"}, InitialScan.ONLY),
        ({"initial_scan_only": None}, InitialScan.ONLY),
    ],
)
def test_a_feed_begins_with_a_scan_unless_it_is_told_otherwise(
    chosen: dict[str, str | None], scan: InitialScan
) -> None:
    assert read(clauses(**chosen)) == FeedOptions(initial_scan=scan)


@pytest.mark.parametrize(
    ("chosen", "scan"),
    [
        ({}, InitialScan.NO),
        ({"initial_scan": None}, InitialScan.YES),
        ({"initial_scan": "yes"}, InitialScan.YES),
        ({"initial_scan_only": None}, InitialScan.ONLY),
        ({"no_initial_scan": None}, InitialScan.NO),
    ],
)
def test_a_feed_with_a_cursor_scans_only_when_it_is_told_to(
    chosen: dict[str, str | None], scan: InitialScan
) -> None:
    assert read(clauses(cursor="7.0000000001", **chosen)) == FeedOptions(
        initial_scan=scan, cursor=Timestamp(7, 1)
    )


@pytest.mark.parametrize(
    ("text", "envelope"),
    [
        ("wrapped", Envelope.WRAPPED),
        ("WRAPPED", Envelope.WRAPPED),
        ("row", Envelope.ROW),
        ("none", Envelope.ROW),
        ("deprecated_row", Envelope.ROW),
        ("key_only", Envelope.KEY_ONLY),
        ("bare", Envelope.BARE),
        ("enriched", Envelope.ENRICHED),
        ("upsert", Envelope.UPSERT),
        ("Debezium", Envelope.DEBEZIUM),
    ],
)
def test_envelopes_and_their_older_names(text: str, envelope: Envelope) -> None:
    assert read(clauses(envelope=text)).envelope is envelope


def test_the_rfcs_envelope_diff_is_an_option_now() -> None:
    expected = scanned(envelope=Envelope.WRAPPED, diff=True)
    assert read(clauses(envelope="diff")) == expected
    assert read(clauses(diff=None)) == expected


def test_everything_that_json_has_at_once() -> None:
    given = clauses(
        format="JSON",
        envelope="wrapped",
        updated=None,
        mvcc_timestamp=None,
        diff=None,
        key_in_value=None,
        topic_in_value=None,
        full_table_name=None,
        headers_json_column_name="h",
        resolved="1m30s",
        resolved_topic="marks",
        topic_prefix="P_",
        virtual_columns="NULL",
        encode_json_value_null_as_object=None,
        extra_headers='{"k": 1}',
    )
    assert read(given) == scanned(
        updated=True,
        mvcc_timestamp=True,
        diff=True,
        key_in_value=True,
        topic_in_value=True,
        full_table_name=True,
        headers_json_column_name="h",
        resolved_interval_ns=90_000_000_000,
        resolved_topic="marks",
        topic_prefix="P_",
        virtual_columns=VirtualColumns.NULL,
        encode_json_value_null_as_object=True,
        extra_headers='{"k": "1"}',
    )


@pytest.mark.parametrize("name", ["avro", "AVRO", "experimental_avro"])
def test_everything_that_avro_has_at_once(name: str) -> None:
    given = clauses(
        format=name,
        confluent_schema_registry=f"{REGISTRY}?timeout=5s",
        avro_schema_prefix="Q_",
        updated=None,
        mvcc_timestamp=None,
        diff=None,
        full_table_name=None,
        resolved=None,
    )
    assert read(given) == scanned(
        format=Format.AVRO,
        confluent_schema_registry=f"{REGISTRY}?timeout=5s",
        avro_schema_prefix="Q_",
        updated=True,
        mvcc_timestamp=True,
        diff=True,
        full_table_name=True,
        resolved_interval_ns=0,
    )


def test_a_key_column_without_order_and_a_schema_for_connect() -> None:
    assert read(clauses(key_column="b", unordered=None)) == scanned(key_column="b", unordered=True)
    assert read(clauses(envelope="debezium", connect_schema=None)) == scanned(
        envelope=Envelope.DEBEZIUM, connect_schema=True
    )


@pytest.mark.parametrize(
    ("value", "source", "schema"),
    [
        (None, False, False),
        ("", False, False),
        ("source", True, False),
        ("Schema", False, True),
        (" source , schema,source", True, True),
    ],
)
def test_properties_of_enriched_records(value: str | None, source: bool, schema: bool) -> None:
    asked: dict[str, str | None] = {"envelope": "enriched", "enriched_properties": value}
    options = read(clauses(**asked))
    assert (options.enriched_source, options.enriched_schema) == (source, schema)
    avro = read(clauses(**asked, format="avro", confluent_schema_registry=REGISTRY))
    assert (avro.enriched_source, avro.enriched_schema) == (source, False)  # Avro has its schema anyway


@pytest.mark.parametrize(
    ("chosen", "shows", "needs"),
    [
        (FeedOptions(), False, False),
        (FeedOptions(diff=True), True, True),
        (FeedOptions(envelope=Envelope.ROW, diff=True), False, False),
        (FeedOptions(envelope=Envelope.KEY_ONLY, diff=True), False, False),
        (FeedOptions(envelope=Envelope.ENRICHED), False, True),
        (FeedOptions(envelope=Envelope.ENRICHED, diff=True), True, True),
        (FeedOptions(envelope=Envelope.UPSERT), False, False),
        (FeedOptions(envelope=Envelope.DEBEZIUM), True, True),
    ],
)
def test_previous_values_are_needed_where_records_show_them_or_tell_inserts(
    chosen: FeedOptions, shows: bool, needs: bool
) -> None:
    assert (chosen.shows_previous, chosen.needs_previous) == (shows, needs)


def test_a_registrys_url_does_not_show() -> None:
    assert "hush" not in repr(FeedOptions(confluent_schema_registry="http://me:hush@h"))


@pytest.mark.parametrize(("value", "interval_ns"), [(None, 0), ("", 0), ("0s", 0), ("500ms", 500_000_000)])
def test_resolved_intervals(value: str | None, interval_ns: int) -> None:
    assert read(clauses(resolved=value)).resolved_interval_ns == interval_ns


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"resolved": "-1s"}, "negative durations are not accepted: resolved='-1s'"),
        (
            {"resolved": "soon"},
            "problem parsing option resolved: not a duration: '...' (write 10s, 500ms or 1m30s)",
        ),
        ({"updated": "yes"}, "option updated takes no value"),
        ({"topic_prefix": None}, "option topic_prefix requires a value"),
        ({"envelope": ""}, "option envelope requires a value"),
        (
            {"format": "xml"},
            "unknown format; valid values are "
            "'json', 'avro', 'experimental_avro', 'csv', 'parquet', 'protobuf'",
        ),
        ({"resolvd": None}, "unknown option; did you mean resolved?"),
        ({"zzz": None}, f"unknown option; supported options: {SUPPORTED}"),
        ({"end_time": "1"}, f"option end_time is not supported yet; supported options: {SUPPORTED}"),
        (
            {"format": "parquet"},
            "format=parquet is not supported yet; supported: format=json, format=avro, "
            "format=experimental_avro, format=csv",
        ),
        ({"initial_scan": "foo"}, "unknown initial_scan; valid values are 'yes', 'no', 'only'"),
        ({"initial_scan_only": "yes"}, "option initial_scan_only takes no value"),
        (
            {"format": "avro", "confluent_schema_registry": "registry:8081"},
            "confluent_schema_registry needs a URL: https://host:port or http://host:port",
        ),
        (
            {"envelope": "enriched", "enriched_properties": "source,colour"},
            "unknown enriched_properties; valid values are 'schema', 'source'",
        ),
        ({"key_column": "", "unordered": None}, "option key_column requires a value"),
        ({"unordered": "yes"}, "option unordered takes no value"),
        ({"on_oversize": "drop"}, "unknown on_oversize; valid values are 'fail', 'key_only'"),
        *(
            (
                {"on_oversize": "key_only", "max_row_bytes": text},
                f"max_row_bytes is '{shown}', and must be a whole number of bytes from 1 to 1000000000",
            )
            for text, shown in (
                *((text, text) for text in ("0", "-1", "1.5", "1000000001")),
                *((text, "...") for text in ("1MB", "\u0661")),
            )
        ),
    ],
)
def test_refusals(given: dict[str, str | None], text: str) -> None:
    assert refusal(**given) == text


EMPTY_VALUES_THAT_MEAN_SOMETHING: list[tuple[dict[str, str | None], str]] = [
    (
        {"on_oversize": "key_only", "envelope": name},
        f"on_oversize='key_only' is not usable with envelope={name}, w",
    )
    for name in ("row", "key_only", "upsert", "debezium")
]

CONFLICTS: list[tuple[dict[str, str | None], str]] = [
    ({"max_row_bytes": "5"}, "max_row_bytes is only usable with on_oversize='key_only'"),
    ({"max_row_bytes": "5", "on_oversize": "fail"}, "max_row_bytes is only usable with on_oversize"),
    *EMPTY_VALUES_THAT_MEAN_SOMETHING,
    (
        {"on_oversize": "key_only", "format": "csv", "initial_scan": "only"},
        "on_oversize='key_only' is not usable with format=csv, whose records have no key",
    ),
    (
        {"on_oversize": "key_only", "key_column": "b", "unordered": None},
        "on_oversize='key_only' is not usable with key_column, whose keys do not say which row it was",
    ),
    *(
        ({"initial_scan": "only", name: None}, f"cannot specify both initial_scan='only' and {name}")
        for name in ("resolved", "diff", "updated", "mvcc_timestamp")
    ),
    (
        {"initial_scan": "yes", "no_initial_scan": None},
        "cannot specify both initial_scan and no_initial_scan",
    ),
    ({"initial_scan_only": None, "diff": None}, "cannot specify both initial_scan='only' and diff"),
    ({"initial_scan_only": None, "envelope": "Diff"}, "cannot specify both initial_scan='only' and diff"),
    ({"initial_scan": "only", "envelope": "diff"}, "cannot specify both initial_scan='only' and diff"),
    ({"initial_scan": "only", "end_time": "1"}, "cannot specify both initial_scan='only' and end_time"),
    (
        {"initial_scan": "yes", "initial_scan_only": None},
        "cannot specify both initial_scan and initial_scan_only",
    ),
    ({"format": "csv"}, "format=csv is only usable with initial_scan_only"),
    (
        {"format": "csv", "initial_scan_only": None, "key_in_value": None},
        "key_in_value is not usable with format=csv, which has only the row's columns",
    ),
    (
        {"format": "csv", "initial_scan": "only", "envelope": "enriched"},
        "envelope=enriched is not usable with format=csv, which has only the row's columns",
    ),
    (
        {"format": "parquet", "topic_in_value": None},
        "cannot specify both format=parquet and topic_in_value",
    ),
    ({"key_column": "b"}, "key_column requires the unordered option"),
    ({"format": "avro", "envelope": "none"}, "envelope=row is not supported with format=avro"),
    ({"format": "experimental_avro"}, "confluent_schema_registry is required for format=avro"),
    (
        {"format": "avro", "key_in_value": None, "confluent_schema_registry": "http://r"},
        "key_in_value is not supported with format=avro",
    ),
    (
        {"format": "avro", "envelope": "key_only", "diff": None, "mvcc_timestamp": None},
        "mvcc_timestamp is only usable with envelope=wrapped or envelope=enriched",
    ),
    ({"envelope": "row", "topic_in_value": None}, "topic_in_value is only usable with envelope=wrapped"),
    (
        {"format": "csv", "initial_scan": "only", "encode_json_value_null_as_object": None},
        "encode_json_value_null_as_object is only usable with format=json",
    ),
    (
        {"unordered": None, "resolved": None},
        "unordered is not usable with resolved: without order no timestamp is ever complete",
    ),
    (
        {"envelope": "row", "enriched_properties": "source"},
        "enriched_properties is only usable with envelope=enriched",
    ),
    ({"envelope": "key_only", "key_in_value": None}, "key_in_value is only usable with envelope=wrapped"),
    (
        {"format": "avro", "confluent_schema_registry": REGISTRY, "envelope": "bare", "updated": None},
        "updated is only usable with envelope=wrapped or envelope=enriched",
    ),
    (
        {"format": "avro", "confluent_schema_registry": REGISTRY, "topic_in_value": None},
        "topic_in_value is not supported with format=avro",
    ),
    ({"confluent_schema_registry": REGISTRY}, "confluent_schema_registry is only usable with format=avro"),
    ({"avro_schema_prefix": "P"}, "avro_schema_prefix is only usable with format=avro"),
    (
        {"envelope": "upsert", "updated": None},
        "updated is not usable with envelope=upsert, which has only the row",
    ),
    (
        {"envelope": "debezium", "diff": None},
        "diff is not usable with envelope=debezium, which always has before, after and source.ts_hlc",
    ),
    (
        {"connect_schema": None},
        "connect_schema is only usable with format=json and envelope=upsert or envelope=debezium",
    ),
    (
        {
            "connect_schema": None,
            "envelope": "upsert",
            "format": "avro",
            "confluent_schema_registry": REGISTRY,
        },
        "connect_schema is only usable with format=json",
    ),
    (
        {"encode_json_value_null_as_object": None, "connect_schema": None, "envelope": "upsert"},
        "encode_json_value_null_as_object is not usable with connect_schema",
    ),
    (
        {"virtual_columns": "null", "envelope": "upsert"},
        "virtual_columns='null' is not usable with envelope=upsert, whose rows sinks store",
    ),
    (
        {"headers_json_column_name": "h", "format": "avro", "confluent_schema_registry": REGISTRY},
        "headers_json_column_name is only usable with format=json",
    ),
    (
        {"resolved_topic": "marks"},
        "resolved_topic requires the resolved option: without it there are no markers",
    ),
    (
        {
            "resolved": None,
            "envelope": "upsert",
            "format": "avro",
            "confluent_schema_registry": REGISTRY,
        },
        "resolved with format=avro and envelope=upsert requires the resolved_topic option",
    ),
]


@pytest.mark.parametrize(("given", "text"), CONFLICTS)
def test_a_combination_that_can_never_work_is_told_before_what_is_missing(
    given: dict[str, str | None], text: str
) -> None:
    assert refusal(**given).startswith(text)


@pytest.mark.parametrize("conflict", _CONFLICTS)
def test_every_conflict_has_a_case(conflict: Callable[[Mapping[str, str]], str]) -> None:
    assert any(conflict({name: value or "" for name, value in given.items()}) for given, _ in CONFLICTS)


def test_the_error_stands_at_the_clause_that_is_at_fault() -> None:
    with pytest.raises(StatementError) as caught:
        read(clauses(updated=None, resolved=None, unordered=None))
    assert caught.value.position == 20
    with pytest.raises(StatementError) as caught:
        read(clauses(updated=None, end_time="1"))
    assert caught.value.position == 10
    with pytest.raises(StatementError) as caught:
        read(clauses(updated=None, confluent_schema_registry="h", format="avro"))
    assert caught.value.position == 10


def test_the_fault_is_at_an_option_that_is_named_and_not_at_a_part_of_a_word() -> None:
    """The sentence on key_column says "different", which is not the option diff."""
    with pytest.raises(StatementError, match="different keys") as caught:
        read(clauses(key_column="b", diff=None))
    assert caught.value.position == 0


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(StatementError, match="option updated is given twice"):
        read([OptionClause("updated"), OptionClause("updated")])


#: What an option cannot do without.
COMPANIONS: dict[str, dict[str, str | None]] = {
    "avro_schema_prefix": {"format": "avro", "confluent_schema_registry": REGISTRY},
    "confluent_schema_registry": {"format": "avro"},
    "connect_schema": {"envelope": "upsert"},
    "enriched_properties": {"envelope": "enriched"},
    "key_column": {"unordered": None},
    "max_row_bytes": {"on_oversize": "key_only"},
    "resolved_topic": {"resolved": None},
}


def an_accepted_value(name: str) -> str | None:
    known = KNOWN_OPTIONS[name]
    if known.takes is Takes.NOTHING:
        return None
    if name == "confluent_schema_registry":
        return REGISTRY
    if name == "extra_headers":
        return '{"k": "v"}'
    if name == "enriched_properties":
        return "source"
    if name in ("cursor", "max_row_bytes"):
        return "1"
    return "1s" if known.duration else (*known.choices, "text")[0]


@pytest.mark.parametrize("name", sorted(KNOWN_OPTIONS.keys() - set(SUPPORTED_OPTIONS)))
def test_every_known_option_that_is_missing_is_refused_by_its_name(name: str) -> None:
    text = refusal(**{name: an_accepted_value(name)})
    assert name in text
    assert "unknown" not in text


@pytest.mark.parametrize("name", SUPPORTED_OPTIONS)
def test_every_option_that_is_said_to_be_supported_is(name: str) -> None:
    read(clauses(**{name: an_accepted_value(name)}, **COMPANIONS.get(name, {})))


@pytest.mark.parametrize("name", COMPANIONS)
def test_an_option_that_needs_another_is_refused_alone(name: str) -> None:
    assert name in refusal(**{name: an_accepted_value(name)})


@given(options)
def test_options_are_stored_and_read_back(chosen: FeedOptions) -> None:
    assert FeedOptions.from_json(chosen.to_json()) == chosen


@pytest.mark.parametrize("scan", [{"initial_scan": "only"}, {"initial_scan_only": None}])
@pytest.mark.parametrize("envelope", [Envelope.WRAPPED, Envelope.ROW, Envelope.BARE])
def test_a_scan_can_be_written_as_csv(scan: dict[str, str | None], envelope: Envelope) -> None:
    assert read(clauses(format="CSV", envelope=envelope.value, **scan)) == FeedOptions(
        format=Format.CSV, envelope=envelope, initial_scan=InitialScan.ONLY
    )
