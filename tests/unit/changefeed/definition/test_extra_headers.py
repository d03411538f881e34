"""``extra_headers``: what is read of them, what is refused, and which records have them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION
from tests.unit.changefeed.tables import FOO, INT, deletion, row, table
from tidegate.changefeed.definition.extra_headers import (
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    constant_headers,
    read_extra_headers,
    redacted_headers,
)
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.topic_ownership import check_sink
from tidegate.errors import FeedError, StatementError
from tidegate.rows import Json, Kind, SqlType


def headers_of(text: str) -> list[tuple[str, bytes]]:
    return constant_headers(read_extra_headers(text))


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ('{"k": "v"}', [("k", b"v")]),
        ('{"z": "1", "a": "2"}', [("a", b"2"), ("z", b"1")]),
        ('{"a": 12, "b": 1.50, "c": 1e2}', [("a", b"12"), ("b", b"1.50"), ("c", b"1E+2")]),
        ('{"a": true, "b": false}', [("a", b"true"), ("b", b"false")]),
        ('{"gone": null, "k": "v"}', [("k", b"v")]),
        ('{"o": {"b": 1, "a": [null, "x"]}}', [("o", b'{"a": [null, "x"], "b": 1}')]),
        ('{"k": "first", "k": "last"}', [("k", b"last")]),
        ('{"caf\\u00e9": "\\u2603\\n"}', [("café", "☃\n".encode())]),
        ('{"k": ""}', [("k", b"")]),
        ("{}", []),
        ('{"k": null}', []),
    ],
)
def test_texts_are_taken_and_other_values_are_their_json_text(
    text: str, headers: list[tuple[str, bytes]]
) -> None:
    assert headers_of(text) == headers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("team: blue", "extra_headers is not JSON"),
        ('{"k": NaN}', "extra_headers is not JSON"),
        ("[" * 100_000, "extra_headers is not JSON"),
        ('["k"]', "extra_headers is JSON and no object"),
        ('"k"', "extra_headers is JSON and no object"),
        ("null", "extra_headers is JSON and no object"),
        ('{"": "v"}', "a header whose name is empty"),
        ('{"a\\u0000b": "v"}', "holds a NUL"),
        ('{"tidegate-source": "v"}', "extra_headers cannot set tidegate-source"),
        ('{"a\\u001bb": "v"}', r"a header whose name has the control character U\+001B"),
        ('{"a\x85b": "v"}', r"a header whose name has the control character U\+0085"),
    ],
)
def test_what_gives_no_headers_is_refused(text: str, says: str) -> None:
    with pytest.raises(StatementError, match=says):
        read_extra_headers(text)


@pytest.mark.parametrize(
    "clauses",
    [
        """extra_headers='{"k": "hush"'""",
        """"extra_headers" = 'it''s hush'""",
        """cursor='1', extra_headers='{"k":\n "hush"}'""",
        """extra_headers='{"k":\n "hush"}', cursor='1'""",
    ],
)
def test_a_refusal_stands_at_the_option_and_does_not_show_the_values(clauses: str) -> None:
    statement = f"CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH updated, {clauses}"
    with pytest.raises(StatementError) as caught:
        define_feed(statement, FeedId("f"), 0)
    assert "hush" not in str(caught.value)
    assert str(caught.value).splitlines()[-1].strip() == "^"
    assert caught.value.position == statement.index("cursor" if "cursor" in clauses else clauses[:14])


def test_the_values_stand_in_the_options_and_nowhere_else() -> None:
    statement = (
        """CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH extra_headers='{"x-api-key": "hush", "n": 5}'"""
    )
    defined = define_feed(statement, FeedId("f"), 0)
    options = defined.definition.options
    assert constant_headers(options.extra_headers) == [("n", b"5"), ("x-api-key", b"hush")]
    assert defined.definition.description.endswith(
        """WITH extra_headers = '{"n": "redacted", "x-api-key": "redacted"}', initial_scan = 'yes'"""
    )
    assert "hush" not in f"{defined!r} {options!r}"


JSON_OBJECTS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(
        lambda name: not name.startswith("tidegate-")
    ),
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=2),
    max_size=4,
)


@pytest.mark.long
@given(JSON_OBJECTS)
def test_the_standard_form_is_read_as_itself(given_headers: dict[str, Any]) -> None:
    stored = read_extra_headers(json.dumps(given_headers))
    assert (read_extra_headers(stored) if stored else "") == stored
    assert [name for name, _ in constant_headers(stored)] == sorted(
        name for name, value in given_headers.items() if value is not None
    )
    assert [name for name, _ in constant_headers(redacted_headers(stored))] == [
        name for name, _ in constant_headers(stored)
    ]


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ('["k"]', "no object of texts"),
        ('{"k": 1}', "no object of texts"),
        ('{"": "v"}', "whose name is empty"),
        ('{"a\\u0000b": "v"}', "holds a NUL"),
        ('{"tidegate-index": "7"}', "for tidegate's own"),
        ('{"k": "secret://BAD NAME"}', "behind secret://"),
        ('{"k\\ud800": "v"}', "half a surrogate"),
        ('{"k": "v\\ud800"}', "half a surrogate"),
    ],
)
def test_a_stored_text_that_no_row_could_carry_is_not_read(stored: str, says: str) -> None:
    """Whoever may write to the jobs topic can store it; a producer that met it would end."""
    body = FeedOptions().to_json() | {"extra_headers": stored}
    with pytest.raises(ValueError, match=says) as refused:
        FeedOptions.from_json(body)
    assert "BAD" not in str(refused.value)


@pytest.mark.parametrize(("count", "size"), [(HEADERS_MAX + 1, 1), (2, HEADER_BYTES_MAX // 2)])
def test_stored_headers_beyond_the_bounds_fail_their_feed(count: int, size: int) -> None:
    """An earlier version had no bounds, so such a feed is known and does not begin."""
    stored = json.dumps({f"k{number}": "v" * size for number in range(count)})
    options = FeedOptions(extra_headers=stored)
    definition = replace(DEFINITION, sink_uri="kafka://h", options=options)
    assert FeedDefinition.from_json(definition.to_json()) == definition
    with pytest.raises(FeedError, match=f"{count} headers of .* bytes"):
        check_sink(definition)
    check_sink(replace(definition, options=FeedOptions(extra_headers='{"k": "v"}')))


def test_half_a_surrogate_becomes_what_it_is_in_json_text() -> None:
    assert headers_of('{"k\\udc80": "v\\ud800"}') == [("k\\ufffd", b"v\\ufffd")]


STORED = read_extra_headers('{"team": "blue", "attempt": 1}')
CONSTANTS = [("attempt", b"1"), ("team", b"blue")]


@pytest.mark.parametrize(
    "options",
    [
        *(FeedOptions(envelope=each, extra_headers=STORED) for each in Envelope),
        FeedOptions(envelope=Envelope.UPSERT, connect_schema=True, extra_headers=STORED),
        *(
            FeedOptions(format=Format.AVRO, envelope=each, extra_headers=STORED)
            for each in (Envelope.WRAPPED, Envelope.BARE, Envelope.ENRICHED, Envelope.DEBEZIUM)
        ),
    ],
    ids=lambda options: f"{options.format.value} {options.envelope.value}",
)
def test_every_row_and_every_deletion_has_them(options: FeedOptions) -> None:
    headers = compile_encoder(FOO, options).headers
    assert headers is not None
    assert headers(row(FOO, a=1, b="x")) == CONSTANTS
    assert headers(deletion(FOO, 1)) == CONSTANTS


def test_a_rows_own_headers_stand_behind_them_also_under_the_same_name() -> None:
    noted = table("noted", {"a": INT, "h": SqlType(Kind.JSONB)}, key=("a",))
    options = FeedOptions(headers_json_column_name="h", extra_headers=STORED)
    headers = compile_encoder(noted, options).headers
    assert headers is not None
    own = Json({"team": "red", "n": Decimal(2)})
    assert headers(row(noted, a=1, h=own)) == [*CONSTANTS, ("n", b"2"), ("team", b"red")]
    assert headers(row(noted, a=1, h=None)) == CONSTANTS
    assert headers(row(noted, a=1, h=own)) == [*CONSTANTS, ("n", b"2"), ("team", b"red")]
