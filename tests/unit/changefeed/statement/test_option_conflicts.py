"""Options that exclude or need each other: the sentence that refuses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.unit.changefeed.statement.read_clauses import COMPANIONS, REGISTRY, an_accepted_value, refusal
from tidegate.changefeed.statement.option_conflicts import _CONFLICTS

SUPPORTED = (
    "avro_schema_prefix, confluent_schema_registry, connect_schema, cursor, diff, "
    "encode_json_value_null_as_object, enriched_properties, envelope, existing_topics, extra_headers, "
    "format, full_table_name, headers_json_column_name, initial_scan, initial_scan_only, key_column, "
    "key_in_value, max_row_bytes, mvcc_timestamp, no_initial_scan, on_error, on_oversize, resolved, "
    "resolved_topic, topic_in_value, topic_prefix, unordered, updated, virtual_columns"
)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"lagging_ranges_threshold": "0s"},
            "option lagging_ranges_threshold must be a duration greater than 0",
        ),
        (
            {"lagging_ranges_polling_interval": "-1s"},
            "option lagging_ranges_polling_interval must be a duration greater than 0",
        ),
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
        ({"on_error": "pause"}, "on_error=pause is not supported yet; supported: on_error=fail"),
        ({"on_error": "ignore"}, "unknown on_error; valid values are 'fail', 'pause'"),
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
    (
        {"no_initial_scan": None, "initial_scan_only": None},
        "cannot specify both initial_scan='only' and no_initial_scan",
    ),
    ({"format": "csv"}, "format=csv is only usable with initial_scan_only"),
    (
        {"format": "csv", "initial_scan_only": None, "key_in_value": None},
        "key_in_value is not usable with format=csv, which has only the row's columns",
    ),
    (
        {"format": "csv", "initial_scan": "only", "envelope": "enriched"},
        "envelope=enriched is only usable with format=json/avro: a CSV record has only the row's columns",
    ),
    (
        {"format": "csv", "initial_scan": "only", "envelope": "debezium"},
        "envelope=debezium is not usable with format=csv, which has only the row's columns",
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
        "unordered is not usable with resolved because resolved timestamps cannot be guaranteed to be "
        "correct in unordered mode",
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
    as_read = [{name: (value or "").lower() for name, value in given.items()} for given, _ in CONFLICTS]
    assert any(map(conflict, as_read))


@pytest.mark.parametrize("name", COMPANIONS)
def test_an_option_that_needs_another_is_refused_alone(name: str) -> None:
    assert name in refusal(**{name: an_accepted_value(name)})
