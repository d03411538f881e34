"""WITH clauses: what is read, what is refused, and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.unit.changefeed.feeds import options
from tidegate.changefeed.option_catalogue import KNOWN_OPTIONS, SUPPORTED_OPTIONS, Takes
from tidegate.changefeed.option_clauses import NO_SCAN_NOTICE, OptionClause, read_options
from tidegate.changefeed.options import DEFAULT_OPTIONS, Envelope, FeedOptions
from tidegate.errors import StatementError


def clauses(**given: str | None) -> list[OptionClause]:
    return [OptionClause(name, value, 10 * number) for number, (name, value) in enumerate(given.items())]


def refusal(**given: str | None) -> str:
    with pytest.raises(StatementError) as caught:
        read_options(clauses(**given))
    return str(caught.value)


def test_without_clauses_the_defaults_hold_and_the_user_learns_about_scans() -> None:
    assert read_options([]) == (DEFAULT_OPTIONS, (NO_SCAN_NOTICE,))


@pytest.mark.parametrize(
    "chosen", [{"initial_scan": "no"}, {"initial_scan": "NO"}, {"no_initial_scan": None}]
)
def test_refusing_the_scan_silences_the_notice(chosen: dict[str, str | None]) -> None:
    assert read_options(clauses(**chosen)) == (DEFAULT_OPTIONS, ())


@pytest.mark.parametrize(
    ("text", "envelope"),
    [
        ("wrapped", Envelope.WRAPPED),
        ("WRAPPED", Envelope.WRAPPED),
        ("row", Envelope.ROW),
        ("none", Envelope.ROW),
        ("deprecated_row", Envelope.ROW),
        ("key_only", Envelope.KEY_ONLY),
    ],
)
def test_envelopes_and_their_older_names(text: str, envelope: Envelope) -> None:
    assert read_options(clauses(envelope=text)).options.envelope is envelope


def test_everything_that_is_supported_at_once() -> None:
    given = clauses(
        format="JSON", envelope="row", updated=None, mvcc_timestamp=None, resolved="1m30s", topic_prefix="P_"
    )
    assert read_options(given).options == FeedOptions(
        envelope=Envelope.ROW,
        updated=True,
        mvcc_timestamp=True,
        resolved_interval_ns=90_000_000_000,
        topic_prefix="P_",
    )


@pytest.mark.parametrize(("value", "interval_ns"), [(None, 0), ("", 0), ("0s", 0), ("500ms", 500_000_000)])
def test_resolved_intervals(value: str | None, interval_ns: int) -> None:
    assert read_options(clauses(resolved=value)).options.resolved_interval_ns == interval_ns


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"resolved": "-1s"}, "negative durations are not accepted: resolved='-1s'"),
        (
            {"resolved": "soon"},
            "problem parsing option resolved: not a duration: 'soon' (write 10s, 500ms or 1m30s)",
        ),
        ({"updated": "yes"}, "option updated takes no value"),
        ({"topic_prefix": None}, "option topic_prefix requires a value"),
        ({"envelope": ""}, "option envelope requires a value"),
        (
            {"format": "xml"},
            "unknown format: xml; valid values are "
            "'json', 'avro', 'experimental_avro', 'csv', 'parquet', 'protobuf'",
        ),
        ({"resolvd": None}, "unknown option resolvd; did you mean resolved?"),
        (
            {"zzz": None},
            "unknown option zzz; supported options: envelope, format, initial_scan, mvcc_timestamp, "
            "no_initial_scan, resolved, topic_prefix, updated",
        ),
        (
            {"diff": None},
            "option diff is not supported yet; supported options: envelope, format, initial_scan, "
            "mvcc_timestamp, no_initial_scan, resolved, topic_prefix, updated",
        ),
        ({"format": "parquet"}, "format=parquet is not supported yet; supported: format=json"),
        ({"initial_scan": None}, "initial_scan=yes is not supported yet; supported: initial_scan=no"),
        ({"initial_scan": "only"}, "initial_scan=only is not supported yet; supported: initial_scan=no"),
        (
            {"envelope": "diff"},
            "envelope=diff is not supported yet; supported: envelope=wrapped, envelope=row, envelope=none, "
            "envelope=deprecated_row, envelope=key_only",
        ),
    ],
)
def test_refusals(given: dict[str, str | None], text: str) -> None:
    assert refusal(**given) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"initial_scan_only": None, "diff": None}, "cannot specify both initial_scan='only' and diff"),
        ({"initial_scan": "only", "end_time": "1"}, "cannot specify both initial_scan='only' and end_time"),
        (
            {"initial_scan": "yes", "initial_scan_only": None},
            "cannot specify both initial_scan and initial_scan_only",
        ),
        ({"format": "csv"}, "format=csv is only usable with initial_scan_only"),
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
    ],
)
def test_a_combination_that_can_never_work_is_told_before_what_is_missing(
    given: dict[str, str | None], text: str
) -> None:
    assert refusal(**given).startswith(text)


def test_the_error_stands_at_the_clause_that_is_at_fault() -> None:
    with pytest.raises(StatementError) as caught:
        read_options(clauses(updated=None, resolved=None, unordered=None))
    assert caught.value.position == 20
    with pytest.raises(StatementError) as caught:
        read_options(clauses(updated=None, diff=None))
    assert caught.value.position == 10


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(StatementError, match="option updated is given twice"):
        read_options([OptionClause("updated"), OptionClause("updated")])


def an_accepted_value(name: str) -> str | None:
    known = KNOWN_OPTIONS[name]
    if known.takes is Takes.NOTHING:
        return None
    return "1s" if known.duration else (*known.choices, "text")[0]


@pytest.mark.parametrize("name", sorted(KNOWN_OPTIONS.keys() - set(SUPPORTED_OPTIONS)))
def test_every_known_option_that_is_missing_is_refused_by_its_name(name: str) -> None:
    text = refusal(**{name: an_accepted_value(name)})
    assert name in text
    assert "unknown" not in text


@pytest.mark.parametrize("name", SUPPORTED_OPTIONS)
def test_every_option_that_is_said_to_be_supported_is(name: str) -> None:
    value = "no" if name == "initial_scan" else an_accepted_value(name)
    read_options(clauses(**{name: value}))


@given(options)
def test_options_are_stored_and_read_back(chosen: FeedOptions) -> None:
    assert FeedOptions.from_json(chosen.to_json()) == chosen
