"""AS OF and UP TO: what is a timestamp, and what is none."""

from __future__ import annotations

import pytest

from tidegate.errors import SubscribeStatementError
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.subscribe.statement.bound_time import bound_time
from tidegate.subscribe.statement.parser import parse_subscribe

NOW = 1_600_000_000 * NANOS_PER_SECOND


def time_of(text: str) -> Timestamp:
    """The timestamp of an expression behind AS OF."""
    clause = parse_subscribe(f"SUBSCRIBE t AS OF {text}").as_of
    assert clause is not None
    return bound_time(clause, NOW)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0", Timestamp(0)),
        ("1536242855577149065", Timestamp(1536242855577149065)),
        ("1536242855577149065.0000000002", Timestamp(1536242855577149065, 2)),
        ("'1536242855577149065.0000000002'", Timestamp(1536242855577149065, 2)),
        ("7::mz_timestamp", Timestamp(7)),
        ("CAST('7' AS mz_timestamp)", Timestamp(7)),
        ("'2018-09-06 14:07:35.577149+00:00'", Timestamp(1536242855577149000)),
        ("'2218-09-06'", Timestamp(7847539200 * NANOS_PER_SECOND)),
        ("'-10s'", Timestamp(NOW - 10 * NANOS_PER_SECOND)),
        ("mz_now()", Timestamp(NOW)),
        ("5+5", Timestamp(10)),
        ("2 * (7 - 3) - 1", Timestamp(7)),
        ("-(1 - 3)", Timestamp(2)),
        ("(1 + 1)::mz_timestamp", Timestamp(2)),
    ],
)
def test_a_bound_is_a_timestamp(text: str, time: Timestamp) -> None:
    assert time_of(text) == time


@pytest.mark.parametrize(
    "text",
    [
        *("NULL", "TRUE", "'soon'", "-1", "a", "99999999999999999999", "'10s'", "0.9999999999"),
        *("1 - 2", "a + 1", "1 + '1'", "1.5 + 1", "1 + TRUE", "6 / 2", "9223372036854775807 + 1"),
        "9223372036854775807 * 9223372036854775807 * 0",
    ],
)
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(
        SubscribeStatementError, match=r"castable to a \(non-null\) mz_timestamp value"
    ) as caught:
        time_of(text)
    assert caught.value.code == "invalid_bound"
