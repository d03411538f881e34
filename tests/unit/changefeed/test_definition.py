"""From a statement to a feed's definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import FEED
from tidegate.changefeed.definition import define_feed
from tidegate.changefeed.feed import FIRST_EPOCH, FeedDefinition, TableName
from tidegate.changefeed.option_clauses import NO_SCAN_NOTICE
from tidegate.changefeed.options import Envelope, FeedOptions
from tidegate.errors import StatementError

URI = "kafka://h:9092?topic_prefix=shop."
STATEMENT = f"create changefeed for Orders, db.items into '{URI}' with resolved, updated, initial_scan='no';"


def definition_of(statement: str) -> FeedDefinition:
    return define_feed(statement, FEED, 5).definition


def test_a_statement_defines_the_first_epoch_of_a_feed() -> None:
    defined = define_feed(STATEMENT, FEED, 5)
    assert defined.definition == FeedDefinition(
        id=FEED,
        epoch=FIRST_EPOCH,
        description=(
            "CREATE CHANGEFEED FOR TABLE defaultdb.public.orders, db.public.items INTO "
            "'kafka://h:9092?topic_prefix=shop.' WITH initial_scan = 'no', resolved = '0s', updated"
        ),
        sink_uri=URI,
        tables=(TableName("orders"), TableName("items", database="db")),
        options=FeedOptions(updated=True, resolved_interval_ns=0, topic_prefix="shop."),
        created_ns=5,
    )
    assert defined.sink.hosts == ("h:9092",)
    assert defined.notices == ()


def test_a_sink_with_a_security_of_its_own_is_refused_and_its_secret_goes_nowhere() -> None:
    with pytest.raises(StatementError) as caught:
        definition_of(
            "CREATE CHANGEFEED FOR a INTO 'kafka://h?sasl_enabled=true&sasl_user=me&sasl_password=hush'"
        )
    assert "sasl_enabled, sasl_user, sasl_password. Rows go out over the worker's own" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_feed_without_a_word_on_scans_brings_a_notice() -> None:
    assert define_feed("CREATE CHANGEFEED FOR a INTO 'kafka://h'", FEED, 5).notices == (NO_SCAN_NOTICE,)


def test_the_prefix_may_stand_in_either_place_or_in_both_alike() -> None:
    for uri, clause in (
        ("?topic_prefix=p", ""),
        ("", "topic_prefix=p"),
        ("?topic_prefix=p", "topic_prefix=p"),
    ):
        tail = f" WITH {clause}" if clause else ""
        definition = definition_of(f"CREATE CHANGEFEED FOR a INTO 'kafka://h{uri}'{tail}")
        assert definition.options.topic_prefix == "p"


def test_two_different_prefixes_are_refused() -> None:
    with pytest.raises(StatementError, match="'q' as an option and 'p' in the sink URI"):
        definition_of("CREATE CHANGEFEED FOR a INTO 'kafka://h?topic_prefix=p' WITH topic_prefix=q")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("a, A", "table defaultdb.public.a is named twice"),
        ("a, db.a", "tables defaultdb.public.a and db.public.a would share the topic a"),
        (f"{'a' * 249}b, {'a' * 249}c", "would share the topic"),
    ],
)
def test_two_tables_never_share_a_topic(names: str, text: str) -> None:
    with pytest.raises(StatementError) as caught:
        definition_of(f"CREATE CHANGEFEED FOR {names} INTO 'kafka://h'")
    assert text in str(caught.value)
    assert caught.value.position > 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders/markers", "'orders/markers', which Kafka does not take as the name of a topic"),
        ("..", "which Kafka does not take"),
        ("m" * 250, "which Kafka does not take"),
        ("p_a", "resolved_topic is p_a, and the feed writes rows there"),
    ],
)
def test_a_topic_for_markers_is_a_name_that_kafka_takes_and_not_one_of_the_rows(name: str, text: str) -> None:
    statement = (
        f"CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH topic_prefix='p_', resolved, resolved_topic='{name}'"
    )
    with pytest.raises(StatementError) as caught:
        definition_of(statement)
    assert text in str(caught.value)
    assert caught.value.position == statement.index("resolved_topic")


def test_a_topic_for_markers_is_named_without_the_prefix() -> None:
    statement = (
        "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH topic_prefix='p_', resolved, resolved_topic='m.a-1_B'"
    )
    assert definition_of(statement).options.resolved_topic == "m.a-1_B"


def test_faults_of_options_and_sink_have_a_caret_too() -> None:
    with pytest.raises(StatementError) as caught:
        definition_of("CREATE CHANGEFEED FOR a INTO 'kafka://h'\n  WITH updated, diff")
    assert str(caught.value).splitlines()[1:] == ["    WITH updated, diff", "                  ^"]
    with pytest.raises(StatementError) as caught:
        definition_of("CREATE CHANGEFEED FOR a INTO 'kafka://h?sasl_password=hush'")
    assert "hush" not in str(caught.value)
    assert str(caught.value).splitlines()[-1].index("^") == 2 + len("CREATE CHANGEFEED FOR a INTO ")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(
    st.lists(names, min_size=1, max_size=3, unique=True),
    st.sampled_from(Envelope),
    st.booleans(),
    st.none() | st.integers(0, 2**62),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
def test_a_description_is_a_statement_that_defines_the_same_feed(
    tables: list[str], envelope: Envelope, updated: bool, interval_ns: int | None, prefix: str
) -> None:
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in tables]
    clauses = [f"envelope={envelope.value}"]
    clauses += ["updated"] if updated else []
    clauses += [f"resolved='{interval_ns}ns'"] if interval_ns is not None else []
    clauses += ["topic_prefix='{}'".format(prefix.replace("'", "''"))] if prefix else []
    definition = definition_of(
        f"CREATE CHANGEFEED FOR {', '.join(quoted)} INTO 'kafka://h' WITH {', '.join(clauses)}"
    )
    again = definition_of(definition.description)
    assert (again.tables, again.options) == (definition.tables, definition.options)
    assert again.description == definition.description
