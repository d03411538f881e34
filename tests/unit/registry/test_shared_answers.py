"""One question for all who want the same answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tidegate.registry.shared_answers import SharedAnswers


class Slow:
    """Answers a key with its length, once the gate is open; notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = Event()

    def __call__(self, key: str) -> int:
        self.asked.append(key)
        self.gate.wait()
        if key == "wrong":
            raise ValueError(key)
        return len(key)


@pytest.fixture
def slow() -> Slow:
    return Slow()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def waiting(answers: SharedAnswers[str, int], key: str) -> int:
    """Return the number of those that wait for an answer."""
    question = answers._open.get(key)
    return 0 if question is None else len(question._condition._waiters)  # type: ignore[attr-defined]


def test_many_who_want_the_same_ask_once(slow: Slow) -> None:
    answers = SharedAnswers(slow, keep=9, patience_s=30)
    with ThreadPoolExecutor(8) as pool:
        wanted = [pool.submit(answers.get, "four") for _ in range(8)]
        until(lambda: waiting(answers, "four") == 8)
        slow.gate.set()
    assert [each.result() for each in wanted] == [4] * 8
    assert slow.asked == ["four"]


def test_different_questions_do_not_wait_for_each_other(slow: Slow) -> None:
    answers = SharedAnswers(slow, keep=9, patience_s=30)
    with ThreadPoolExecutor(2) as pool:
        wanted = [pool.submit(answers.get, key) for key in ("a", "bb")]
        until(lambda: len(slow.asked) == 2)
        slow.gate.set()
    assert [each.result() for each in wanted] == [1, 2]


def test_what_was_answered_is_not_asked_again(slow: Slow) -> None:
    slow.gate.set()
    answers = SharedAnswers(slow, keep=9, patience_s=30)
    assert answers.known("four") is None
    assert [answers.get("four"), answers.get("four"), answers.known("four")] == [4, 4, 4]
    assert slow.asked == ["four"]


def test_an_error_reaches_all_who_wait_and_is_not_kept(slow: Slow) -> None:
    answers = SharedAnswers(slow, keep=9, patience_s=30)
    with ThreadPoolExecutor(2) as pool:
        wanted = [pool.submit(answers.get, "wrong") for _ in range(2)]
        until(lambda: waiting(answers, "wrong") == 2)
        slow.gate.set()
    assert [type(each.exception()) for each in wanted] == [ValueError, ValueError]
    with pytest.raises(ValueError, match="wrong"):
        answers.get("wrong")
    assert slow.asked == ["wrong", "wrong"]


def test_the_longest_unused_answer_goes_first(slow: Slow) -> None:
    slow.gate.set()
    answers = SharedAnswers(slow, keep=2, patience_s=30)
    for key in ("a", "bb", "a", "ccc"):
        answers.get(key)
    assert [answers.known(key) for key in ("a", "bb", "ccc")] == [1, None, 3]


def test_nobody_waits_longer_than_his_patience_and_the_question_stays_the_only_one(slow: Slow) -> None:
    answers = SharedAnswers(slow, keep=9, patience_s=0.01)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            answers.get("four")
    assert slow.asked == ["four"]
    slow.gate.set()
    until(lambda: answers.known("four") == 4)
