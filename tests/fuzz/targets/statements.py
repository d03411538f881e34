"""Statements, and the texts in them: addresses of sinks and registries, timestamps, durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from typing import Final

from tests.fuzz.mutators import reworded, text_bytes, text_of
from tests.fuzz.target import Target
from tests.hostile.corpus.texts import STATEMENTS
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.definition.sink import parse_sink_uri
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.changefeed.statement.definition import define_feed
from tidegate.changefeed.statement.grammar import KEYWORDS
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS
from tidegate.errors import StatementError

_FEED: Final = FeedId("fuzzed")
_NOW: Final = 1_700_000_000_000_000_000
#: What one step costs grows with the text, so that few long ones are taken.
_LONGEST_SEED: Final = 10_000

_SINKS: Final = (
    "kafka://h:1",
    "kafka://a:9092,b:9092?topic_prefix=x_",
    "kafka://[::1]:9092/?tls_enabled=true&ca_cert=Zm9v&sasl_enabled=true&sasl_user=u&sasl_password=hush",
    "confluent-cloud://h:1?api_key=k&api_secret=hush",
)
_REGISTRIES: Final = (
    "https://me:hush@registry:8081/path?timeout=10s",
    "http://[::1]:8081?ca_cert=Zm9v&client_cert=Zm9v&client_key=secret://key",
    "https://me@registry?password=secret://registry",
)
_MOMENTS: Final = (
    *("1536242855577149065.0000000000", "1536242855577149065", "2018-09-06 14:07:35.577149+00:00"),
    *("2018-09-06T14:07:35Z", "-1h", "-90s", "10s", "1h30m", "500ms"),
)
_HEADERS: Final = '{"tier": "gold", "x-api-key": "secret://key"}'


def _options() -> str:
    return (
        "updated, diff, resolved='10s', cursor='-1h', envelope='wrapped', initial_scan='no', "
        f"extra_headers='{_HEADERS}', key_column='v', unordered, on_oversize='key_only', max_row_bytes='1000'"
    )


_STATEMENTS: Final = (
    "CREATE CHANGEFEED FOR t INTO 'kafka://h:1'",
    f'CREATE CHANGEFEED FOR TABLE a.b.t, t2, "odd ""name" INTO \'{_SINKS[1]}\' WITH {_options()};',
    f"CREATE CHANGEFEED FOR t FAMILY f INTO '{_SINKS[0]}' WITH OPTIONS (format='avro', "
    f"confluent_schema_registry='{_REGISTRIES[1]}', envelope='enriched', "
    "enriched_properties='schema,source')",
    "CREATE CHANGEFEED INTO 'kafka://h:1' WITH diff AS SELECT * FROM t WHERE a > 5",
    "ALTER CHANGEFEED 5 ADD t -- a comment",
    "SHOW CHANGEFEED JOBS",
    *(
        f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1' WITH {options.text}"
        for options in STATEMENTS
        if len(options.text) < _LONGEST_SEED
    ),
)
_WORDS: Final = (
    *KEYWORDS,
    *KNOWN_OPTIONS,
    *chain.from_iterable(option.choices for option in KNOWN_OPTIONS.values()),
    *("'", "''", '"', '""', ",", ";", "=", "(", ")", ".", "--", "/*", "*/", "\n", " ", "e'\\n'", "$1", "$$"),
    *("'10s'", "'-1'", "'yes'", "0", "-5", "9" * 30, "9" * 5_000, "1e9", "x" * 5_000, "\ud800", "\0", "é"),
)
_URI_WORDS: Final = (
    *("://", ":", "/", "?", "&", "=", "#", "@", "%", "%00", "%ZZ", "%ED%A0%80", "[", "]", "[::1]", "[v1.x]"),
    *("kafka", "http", "https", "confluent-cloud", "secret://x", "topic_prefix", "tls_enabled", "true", "1"),
    *("sasl_enabled", "sasl_user", "sasl_password", "sasl_mechanism", "SCRAM-SHA-256", "ca_cert", "timeout"),
    *("client_cert", "client_key", "password", "Zm9v", "127.0.0.1", "99999", "-1", "9" * 5_000, "a" * 5_000),
    *("\ud800", "\u2100", "\u3002", "xn--", "\0", " ", "\n", "localhost"),
)
_MOMENT_WORDS: Final = (
    *("0", "9" * 19, "9" * 30, "9" * 5_000, ".", "-", ":", "+", "T", "Z", "UTC", " ", "\u0663", "\ud800"),
    *("h", "m", "s", "ms", "us", "µs", "ns", "d", "99:99", "0000-00-00", "1e9"),
)


def _drawn(seeds: Sequence[str], words: Sequence[str]) -> Callable[[Random], bytes]:
    return lambda chance: text_bytes(reworded(chance, chance.choice(seeds), words))


def _take_moment(data: bytes) -> None:
    read_cursor(text_of(data), _NOW)


TARGETS: Final = (
    Target(
        "statements",
        _drawn(_STATEMENTS, _WORDS),
        lambda data: define_feed(text_of(data), _FEED, _NOW),
        (StatementError,),
    ),
    Target(
        "sinks", _drawn(_SINKS, _URI_WORDS), lambda data: parse_sink_uri(text_of(data)), (StatementError,)
    ),
    Target(
        "registries",
        _drawn(_REGISTRIES, _URI_WORDS),
        lambda data: parse_registry_uri(text_of(data)),
        (StatementError,),
    ),
    Target("cursors", _drawn(_MOMENTS, _MOMENT_WORDS), _take_moment, (StatementError,)),
)
