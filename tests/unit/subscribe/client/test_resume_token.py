"""Tokens: their bytes, and those that are refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import TokenRefused
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.subscribe.client.resume_token import ResumeToken, read_token
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.updates.frontier import Frontier

TOKEN = ResumeToken(Frontier(Timestamp(7, 3)), "f0", {FeedPartition("t", 1): 12, FeedPartition("t", 0): 5})
MEMBERS: dict[str, Any] = {
    "fingerprint": "f0",
    "format": 1,
    "frontier": "7.0000000003",
    "offsets": [["t", 0, 5], ["t", 1, 12]],
}


def text_of(members: Any) -> str:
    """A token's text with these members."""
    return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


def test_the_bytes_of_a_token_stay() -> None:
    """Stored by consumers: a change of them is a change of format."""
    padded = str(TOKEN) + "=" * (-len(str(TOKEN)) % 4)
    assert base64.urlsafe_b64decode(padded) == (
        b'{"fingerprint":"f0","format":1,"frontier":"7.0000000003","offsets":[["t",0,5],["t",1,12]]}'
    )


@given(
    frontier=st.builds(Timestamp, st.integers(0, MAX.wall), st.integers(0, MAX.logical)).map(Frontier),
    fingerprint=st.text(max_size=40).filter(lambda text: text.isprintable()),
    offsets=st.dictionaries(
        st.builds(FeedPartition, st.text("ab_-.", max_size=5), st.integers(0, 99)), st.integers(0)
    ),
)
def test_a_token_is_read_as_it_was_written(
    frontier: Frontier, fingerprint: str, offsets: dict[FeedPartition, int]
) -> None:
    token = ResumeToken(frontier, fingerprint, offsets)
    assert read_token(str(token), fingerprint) == token


@pytest.mark.parametrize("number", [2**31 - 1, 2**31, 9_999_999_999, 1_700_000_000_000, 2**64 - 1])
def test_a_frontier_of_plain_numbers_is_read_as_it_was_written(number: int) -> None:
    token = ResumeToken(Frontier(Timestamp(0, number)), "f0")
    assert read_token(str(token), "f0") == token
    assert token.as_of == Timestamp(0, number - 1)


def test_a_resume_begins_below_the_frontier() -> None:
    assert TOKEN.as_of == Timestamp(7, 2)
    assert ResumeToken(Frontier(ZERO), "").as_of == ZERO


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (str(TOKEN)[:-2], "damaged"),
        ("", "damaged"),
        ("€", "damaged"),
        ("a" * 5_000_000, "damaged"),
        (text_of([1]), "damaged"),
        (text_of({**MEMBERS, "format": 2}), "a newer one wrote it"),
        (text_of({"format": 99}), "a newer one wrote it"),
        (text_of({**MEMBERS, "format": 0}), "damaged"),
        (text_of({**MEMBERS, "format": True}), "damaged"),
        (text_of({**MEMBERS, "fingerprint": "f1"}), "of another subscription"),
        (text_of({**MEMBERS, "fingerprint": 1}), "damaged"),
        (text_of({**MEMBERS, "frontier": "-1"}), "damaged"),
        (text_of({**MEMBERS, "frontier": 7}), "damaged"),
        (text_of({**MEMBERS, "frontier": "1.2147483648"}), "damaged"),
        (text_of({**MEMBERS, "frontier": "0.02147483648"}), "damaged"),
        (text_of({**MEMBERS, "frontier": f"0.{2**64}"}), "damaged"),
        (text_of({**MEMBERS, "offsets": [["t", 0]]}), "damaged"),
        (text_of({**MEMBERS, "offsets": [["t", 0, -1]]}), "damaged"),
        (text_of({**MEMBERS, "offsets": None}), "damaged"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(TokenRefused, match=why) as caught:
        read_token(text, "f0")
    assert (caught.value.code, caught.value.sqlstate) == ("token_refused", "22023")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(TokenRefused):
        read_token(base64.urlsafe_b64encode(content).decode(), "f0")
