"""The guard of a stage: after an error, and after an interrupt, each later call raises."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tidegate.errors import CallInterrupted, HistoryLost
from tidegate.subscribe.updates import first_error
from tidegate.subscribe.updates.first_error import FirstError


class Stage:
    """A stage whose calls do a step, and may fail behind it."""

    def __init__(self) -> None:
        self.guard = FirstError()
        self.steps = 0

    def call(self, error: BaseException | None = None) -> int:
        with self.guard:
            self.steps += 1
            if error is not None:
                raise error
            return self.steps


def test_each_later_call_raises_the_first_error() -> None:
    stage = Stage()
    assert stage.call() == 1
    for error in (HistoryLost("gone"), HistoryLost("later")):
        with pytest.raises(HistoryLost, match="gone"):
            stage.call(error)
    assert stage.steps == 2


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_each_call_behind_one_that_was_interrupted_raises_what_to_do(
    interrupt: type[BaseException],
) -> None:
    stage = Stage()
    with pytest.raises(interrupt):
        stage.call(interrupt())
    for _ in range(2):
        with pytest.raises(CallInterrupted, match=r"interrupted .* begin again from the last token"):
            stage.call()
    assert stage.steps == 1


def test_an_interrupt_that_is_forgiven_is_forgotten_and_an_error_is_not() -> None:
    stage = Stage()
    with pytest.raises(KeyboardInterrupt):
        stage.call(KeyboardInterrupt())
    stage.guard.forgive()
    assert stage.call() == 2
    with pytest.raises(HistoryLost):
        stage.call(HistoryLost("gone"))
    stage.guard.forgive()
    with pytest.raises(HistoryLost):
        stage.call()


@pytest.mark.parametrize("error", [None, HistoryLost("gone"), KeyboardInterrupt()])
def test_an_interrupt_within_the_guard_itself_is_known_too(error: BaseException | None) -> None:
    """Functions of the guard are interrupted where they begin, as a signal does it."""
    for at in range(1, 10):
        stage, calls = Stage(), 0

        def interrupt(frame: FrameType, event: str, _: Any, at: int = at) -> None:
            nonlocal calls
            if event == "call" and frame.f_code.co_filename == first_error.__file__:
                calls += 1
                if calls == at:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            stage.call(error)
        except (HistoryLost, KeyboardInterrupt):
            pass
        finally:
            sys.setprofile(None)
        if calls < at:
            assert at > 2
            return
        if stage.steps:  # it did its step, and gave nothing
            with pytest.raises((CallInterrupted, HistoryLost)):
                stage.call()
    raise AssertionError("the guard never came to its end")
