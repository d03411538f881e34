"""The words in which cases expect markers: each is met by markers that are so, and by no others."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.conformance.case_feed import case_feed
from tests.conformance.expected_markers import resolved
from tests.conformance.feed_run import FeedRun, run_feed
from tests.conformance.runner import Outcome, run_case

_INTENT: list[dict[str, Any]] = [
    {"op": "start_feed"},
    {"op": "intent", "txn": "t1", "ts": "10", "key": 1},
    {"op": "closed", "ts": "20"},
]
_ABORTED: list[dict[str, Any]] = [*_INTENT, {"op": "abort_intent", "txn": "t1", "key": 1}]


def _case(writes: list[dict[str, Any]], wanted: object) -> dict[str, Any]:
    return {
        "id": "cf-resolved-99",
        "table": {"name": "foo", "columns": [{"name": "a", "type": "INT"}], "pk": ["a"]},
        "options": {"resolved": True},
        "writes": writes,
        "expect": {"resolved": wanted},
    }


@cache
def _run(*, aborted: bool) -> FeedRun:
    case = _case(_ABORTED if aborted else _INTENT, "words")
    return run_feed(case, case_feed(case))


def _failure(wanted: str, *, aborted: bool) -> str | None:
    return resolved(_case([], wanted), _run(aborted=aborted))


@pytest.mark.parametrize(
    "words",
    [
        "9",
        "9.0000000000, one below the intent",
        "at most 9",
        "9.0000000000 at most (previous instant of 10)",
        "stays at 9.0000000000",
        "is held back at 9 while t1 is open",
        "is 9.0000000000",
        "exactly 9",
        "never above 9.0000000000",
        "not above 9",
        "no higher than 9",
        "<= 9.0000000000",
        "does not pass 9",
        "9.0000000000 until the intent is resolved",
    ],
)
def test_an_open_intent_holds_markers_back(words: str) -> None:
    assert _failure(words, aborted=False) is None
    assert _failure(words.replace("9", "8"), aborted=False) is not None
    without_intent = _failure(words, aborted=True)
    assert (without_intent is None) is (words in _MET_WITHOUT_INTENT)


#: The marker came to 9, and further: no one says of these that it did not.
_MET_WITHOUT_INTENT = {
    "9",
    "9.0000000000, one below the intent",
    "stays at 9.0000000000",
    "is held back at 9 while t1 is open",
    "is 9.0000000000",
    "exactly 9",
    "9.0000000000 until the intent is resolved",
}


@pytest.mark.parametrize("words", ["below 10", "stays under 10 while the intent is open", "< 10"])
def test_markers_stay_below_an_open_intent(words: str) -> None:
    assert _failure(words, aborted=False) is None
    assert _failure(words.replace("10", "9"), aborted=False) is not None
    assert "no intent is open" in str(_failure(words, aborted=True))


@pytest.mark.parametrize(
    "words",
    [
        "20",
        "at least 20",
        "20.0000000000 or later",
        ">= 20",
        "up to 20",
        "may reach 20 once the intent is aborted",
        "can advance to 20.0000000000",
        "moves on to 20",
        "advances past 10",
        "not below 20",
        "released: 20",
        "advances to closed (20)",
        "9.0000000000 while it is open, then 20.0000000000 or later",
        "9 until the abort, then advances to 20",
        "stays at 9 and then 20",
    ],
)
def test_markers_move_on_without_an_intent(words: str) -> None:
    assert _failure(words, aborted=True) is None
    assert _failure(words, aborted=False) is not None


def test_markers_stood_where_they_are_said_to_have_stood() -> None:
    assert _failure("8, then 20", aborted=True) is not None
    assert _failure("9, then 20", aborted=False) is not None


@pytest.mark.parametrize(
    "words", ["9.0000000000, now 20.0000000000", "soon", "advances", "9, then later", "never above: 20"]
)
def test_other_words_are_not_passed_over(words: str) -> None:
    assert "cannot check markers" in str(_failure(words, aborted=True))


@pytest.mark.parametrize("nothing", [None, "none", []])
def test_a_case_may_expect_no_marker(nothing: object) -> None:
    case = _case(_INTENT, nothing)
    assert run_case({**case, "options": {}}).outcome is Outcome.PASSED
    assert run_case(case).outcome is Outcome.FAILED
