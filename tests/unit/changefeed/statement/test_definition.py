"""From a statement to a feed's definition."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import FEED
from tidegate.changefeed.definition.extra_headers import redacted_headers
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.registry_uri import RegistryUri, parse_registry_uri
from tidegate.changefeed.statement.definition import define_feed
from tidegate.changefeed.statement.option_conflicts import find_conflict
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS
from tidegate.errors import StatementError

NOW_NS = 1_700_000_000_000_000_000
URI = "kafka://h:9092?topic_prefix=shop."
STATEMENT = f"create changefeed for Orders, db.items into '{URI}' with resolved, updated, initial_scan='no';"


def definition_of(statement: str) -> FeedDefinition:
    return define_feed(statement, FEED, NOW_NS).definition


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


def test_a_sink_with_a_security_of_its_own_is_refused_and_its_secret_goes_nowhere() -> None:
    with pytest.raises(StatementError) as caught:
        definition_of(
            "CREATE CHANGEFEED FOR a INTO 'kafka://h?sasl_enabled=true&sasl_user=me&sasl_password=hush'"
        )
    assert "sasl_enabled, sasl_user, sasl_password. The TLS and login" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("clauses", "shown"),
    [
        ("", "initial_scan = 'yes'"),
        ("WITH no_initial_scan", "initial_scan = 'no'"),
        ("WITH initial_scan_only", "initial_scan = 'only'"),
        ("WITH cursor='7.1'", "cursor = '7.1000000000', initial_scan = 'no'"),
        ("WITH cursor=7, initial_scan", "cursor = '7.0000000000', initial_scan = 'yes'"),
        ("WITH cursor='-1h'", "cursor = '1699996400000000000.0000000000', initial_scan = 'no'"),
    ],
)
def test_the_description_says_where_the_feed_starts_and_whether_it_scans(clauses: str, shown: str) -> None:
    definition = definition_of(f"CREATE CHANGEFEED FOR a INTO 'kafka://h' {clauses}")
    assert definition.description.endswith(f" WITH {shown}")
    assert define_feed(definition.description, FEED, NOW_NS * 2).definition.options == definition.options


def test_a_cursor_in_the_future_is_refused_with_both_times_and_its_place() -> None:
    statement = (
        "CREATE CHANGEFEED FOR a INTO 'kafka://h'\n  WITH updated, cursor='2023-11-14 22:13:20.000000001'"
    )
    with pytest.raises(StatementError) as caught:
        definition_of(statement)
    assert caught.value.position == statement.index("cursor")
    assert str(caught.value).splitlines() == [
        "cursor='2023-11-14 22:13:20.000000001': cannot specify timestamp in the future: "
        "1700000000000000001.0000000000 (2023-11-14T22:13:20.000000001Z) is after the present, "
        "1700000000000000000.0000000000 (2023-11-14T22:13:20Z) by this machine's clock; give an earlier "
        "cursor, or none for a feed from the present",
        "    WITH updated, cursor='********** ******************'",
        "                  ^",
    ]


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


def test_two_tables_never_share_a_subject() -> None:
    """A subject is cut where a topic is, and has one prefix more before it."""
    long = "t" * 245
    avro = "format=avro, confluent_schema_registry='http://h'"
    statement = f"CREATE CHANGEFEED FOR {long}x, {long}y INTO 'kafka://h' WITH {avro}"
    for prefix in ("", ", avro_schema_prefix='ppp'"):
        assert len(definition_of(statement + prefix).tables) == 2
    with pytest.raises(StatementError, match=r"share the schema registry's subject pppp+t+-value"):
        definition_of(f"{statement}, avro_schema_prefix='pppp'")


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
        ("orders/markers", "this resolved_topic is a text that Kafka does not take as the name of a topic"),
        ("..", "that Kafka does not take"),
        ("m" * 250, "that Kafka does not take"),
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


@pytest.mark.parametrize("prefix", ["my-app", "shop.", "1st", "é"])
def test_a_prefix_that_is_no_avro_namespace_is_refused_where_it_stands(prefix: str) -> None:
    statement = (
        "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH format=avro, confluent_schema_registry='http://r', "
        f"avro_schema_prefix='{prefix}'"
    )
    with pytest.raises(StatementError, match=r"avro_schema_prefix='\.\.\.' cannot be an Avro name") as caught:
        definition_of(statement)
    assert caught.value.position == statement.index("avro_schema_prefix")


def test_a_prefix_that_is_an_avro_namespace_is_taken() -> None:
    statement = (
        "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH format=avro, confluent_schema_registry='http://r', "
        "avro_schema_prefix='com.acme_1'"
    )
    assert definition_of(statement).options.avro_schema_prefix == "com.acme_1"


def test_faults_of_options_and_sink_have_a_caret_too() -> None:
    with pytest.raises(StatementError) as caught:
        definition_of("CREATE CHANGEFEED FOR a INTO 'kafka://h'\n  WITH updated, end_time='1'")
    assert str(caught.value).splitlines()[1:] == ["    WITH updated, end_time='*'", "                  ^"]
    with pytest.raises(StatementError) as caught:
        definition_of("CREATE CHANGEFEED FOR a INTO 'kafka://h?sasl_password=hush'")
    assert "hush" not in str(caught.value)
    assert str(caught.value).splitlines()[-1].index("^") == 2 + len("CREATE CHANGEFEED FOR a INTO ")


characters = st.characters(codec="utf-8", exclude_categories=["Cc"])  # no control characters
names = st.text(characters, min_size=1, max_size=8)
header_names = names.filter(lambda name: "\0" not in name)


#: Option names and the values that a statement may give them; ``None`` for a flag.
some_options = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["json", "avro", "experimental_avro"]),
        "envelope": st.sampled_from(KNOWN_OPTIONS["envelope"].choices),
        "virtual_columns": st.sampled_from(KNOWN_OPTIONS["virtual_columns"].choices),
        "avro_schema_prefix": st.sampled_from(["acme_", "com.acme.shop"]),
        "extra_headers": st.dictionaries(header_names, st.text(max_size=5), max_size=2).map(json.dumps),
        "enriched_properties": st.sampled_from(["source", "source, SCHEMA"]),
        "resolved_topic": st.sampled_from(["marks-of-this-feed", "a.very_special.topic"]),
        "resolved": st.integers(0, 2**62).map("{}ns".format),
        "cursor": st.integers(1, NOW_NS - 1).map(str) | st.just("-90s") | st.just("2001-02-03 04:05"),
        "initial_scan": st.sampled_from([None, "yes", "no", "only"]),
        "no_initial_scan": st.none(),
        "initial_scan_only": st.none(),
        "confluent_schema_registry": st.sampled_from(
            [
                "http://r:81",
                "https://me@r/a%2Fb/?timeout=5s",
                "https://r?ca_cert=LS0tLS1CRUdJTiBYPj4+Pj8/Pw==",
            ]
        ),
        **dict.fromkeys(
            ("headers_json_column_name", "key_column", "topic_prefix"),
            st.text(characters, min_size=1, max_size=5),
        ),
        **dict.fromkeys(
            (
                *("connect_schema", "diff", "full_table_name", "key_in_value", "mvcc_timestamp"),
                *("encode_json_value_null_as_object", "topic_in_value", "unordered", "updated"),
            ),
            st.none(),
        ),
    },
)


def peaceful(given: dict[str, str | None]) -> dict[str, str | None]:
    """Return these options without those that the others exclude."""
    while conflict := find_conflict({name: value or "" for name, value in given.items()}):
        words = re.findall(r"\w+", conflict)
        given = dict(given)
        del given[next((name for name in reversed(given) if name in words), next(reversed(given)))]
    return given


def clause(name: str, value: str | None) -> str:
    return name if value is None else "{} = '{}'".format(name, value.replace("'", "''"))


@given(st.lists(names, min_size=1, max_size=3, unique=True), some_options.map(peaceful))
def test_a_description_is_a_statement_that_defines_the_same_feed(
    tables: list[str], chosen: dict[str, str | None]
) -> None:
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in tables]
    clauses = ", ".join(clause(name, value) for name, value in chosen.items())
    tail = f" WITH {clauses}" if clauses else ""
    try:
        definition = definition_of(f"CREATE CHANGEFEED FOR {', '.join(quoted)} INTO 'kafka://h'{tail}")
    except StatementError as refused:
        assume("no feed may write to" not in str(refused))  # some names are Kafka's, or an application's
        raise
    again = definition_of(definition.description)
    assert (again.tables, without_secrets(again)) == (definition.tables, without_secrets(definition))
    assert registry_of(again) == registry_of(definition)
    assert again.description == definition.description


def without_secrets(definition: FeedDefinition) -> FeedOptions:
    """The options without the registry, and with the names only of the headers."""
    options = definition.options
    shown = redacted_headers(options.extra_headers)
    return replace(options, confluent_schema_registry="", extra_headers=shown)


def registry_of(definition: FeedDefinition) -> RegistryUri | None:
    """The registry, as it is shown; its URL may be written in several ways."""
    url = definition.options.confluent_schema_registry
    return parse_registry_uri(parse_registry_uri(url).redacted()) if url else None


def test_a_registrys_secrets_stand_in_the_options_and_nowhere_else() -> None:
    key = base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()
    cert = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    url = f"https://me:hush@r:8081/x?client_cert={cert}&client_key={key}&timeout=5s"
    defined = define_feed(
        f"CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH format=avro, confluent_schema_registry='{url}'",
        FEED,
        5,
    )
    definition = defined.definition
    assert definition.options.confluent_schema_registry == url
    assert definition.description == (
        "CREATE CHANGEFEED FOR TABLE defaultdb.public.a INTO 'kafka://h:9092' WITH "
        f"confluent_schema_registry = 'https://me:redacted@r:8081/x?client_cert={cert.replace('=', '%3D')}"
        "&client_key=redacted&timeout=5s',"
        " format = 'avro', initial_scan = 'yes'"
    )
    for secret in ("hush", key):
        assert secret not in f"{defined!r} {definition!r} {definition.description}"


@pytest.mark.parametrize(
    "url",
    [
        "me:hush@r",
        "https://me:hush@r?colour=red",
        "https://me:hush@r:x",
        "https://me:hush@r,s",
        "https://me:12#hush@r",
        "https://me:12?hush@r",
        "https://me:12/hush@r",
        "https://me:12 hush@r#x",
        "https://me:o''hush@r#x",
        "https://me:one@hush@r?colour=red",
    ],
)
def test_a_registrys_secrets_do_not_stand_in_refusals(url: str) -> None:
    statement = (
        f"CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH format=avro,\n confluent_schema_registry = '{url}'"
    )
    with pytest.raises(StatementError) as caught:
        definition_of(statement)
    assert "confluent_schema_registry" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert str(caught.value).splitlines()[-1].strip() == "^"
