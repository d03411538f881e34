"""The options of a statement: what their clauses give, and where a fault is pointed at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.changefeed.statement.read_clauses import REGISTRY, clauses, read
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, InitialScan, VirtualColumns
from tidegate.changefeed.statement.option_clauses import OptionClause
from tidegate.errors import StatementError
from tidegate.hlc import Timestamp


def scanned(**fields: Any) -> FeedOptions:
    """Options of a statement that says nothing of scans: the feed begins with one."""
    return FeedOptions(initial_scan=InitialScan.YES, **fields)


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


def test_a_registrys_url_does_not_show() -> None:
    assert "hush" not in repr(FeedOptions(confluent_schema_registry="http://me:hush@h"))


@pytest.mark.parametrize(("value", "interval_ns"), [(None, 0), ("", 0), ("0s", 0), ("500ms", 500_000_000)])
def test_resolved_intervals(value: str | None, interval_ns: int) -> None:
    assert read(clauses(resolved=value)).resolved_interval_ns == interval_ns


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
    """The sentence on key_column says "preserved" and names unordered, which is not there."""
    with pytest.raises(
        StatementError, match=r"requires the unordered option .* cannot be preserved"
    ) as caught:
        read(clauses(diff=None, key_column="b"))
    assert caught.value.position == 10


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(StatementError, match="option updated is given twice"):
        read([OptionClause("updated"), OptionClause("updated")])


@pytest.mark.parametrize("scan", [{"initial_scan": "only"}, {"initial_scan_only": None}])
@pytest.mark.parametrize("envelope", [Envelope.WRAPPED, Envelope.ROW, Envelope.BARE])
def test_a_scan_can_be_written_as_csv(scan: dict[str, str | None], envelope: Envelope) -> None:
    assert read(clauses(format="CSV", envelope=envelope.value, **scan)) == FeedOptions(
        format=Format.CSV, envelope=envelope, initial_scan=InitialScan.ONLY
    )
