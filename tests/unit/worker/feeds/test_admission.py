"""Questions about new feeds are asked in the background, again and again, and nobody waits for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.worker.feeds.admission import Admitted, Questions, Refused, Tell, Verdict, WaitingVerdict

_FEED: Final = FeedId("feed")
_OTHER: Final = FeedId("other")
_AWAY: Final = WaitingVerdict("waiting for them. Nobody is there.")


class _Bench:
    """The jobs agent's part: it looks at a feed when it is told to. Feeds without ``answers`` get none."""

    def __init__(self) -> None:
        self.answers: dict[FeedId, list[Verdict]] = {}
        self.asked: list[FeedId] = []
        self.looks: list[tuple[FeedId, float]] = []
        self.now = 100.0
        self.questions = Questions(
            "them", lambda feed_id, delay: self.looks.append((feed_id, delay)), lambda: self.now
        )

    def ask(self, feed_id: FeedId = _FEED) -> Verdict:
        async def ask(tell: Tell) -> Verdict:
            self.asked.append(feed_id)
            tell("waiting for them.")
            while not self.answers.get(feed_id):  # noqa: ASYNC110 - the test decides when
                await asyncio.sleep(0)
            return self.answers[feed_id].pop(0)

        self.looks.clear()
        return self.questions.verdict(feed_id, ask)

    async def answered(self, feed_id: FeedId = _FEED) -> Verdict:
        """The verdict of the next look that is called for at once."""
        self.ask(feed_id)
        while (feed_id, 0.0) not in self.looks:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0)
        return self.ask(feed_id)


def _run(scenario: Callable[[_Bench], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        bench = _Bench()
        await asyncio.wait_for(scenario(bench), 30)
        bench.questions.close()

    asyncio.run(bounded())


@pytest.mark.parametrize("final", [Admitted(), Refused("401: no")])
def test_one_final_answer_is_enough(final: Verdict) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.answers[_FEED] = [final]
        assert bench.ask() == WaitingVerdict(""), "nobody waits for it"
        assert await bench.answered() == final
        bench.now += 1_000
        assert bench.ask() == final
        assert bench.asked == [_FEED]
        assert bench.looks == [], "there will be no news"

    _run(scenario)


def test_whoever_is_away_is_asked_again_and_less_and_less_often() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.answers[_FEED] = [_AWAY] * 8
        pauses = []
        verdict: Verdict = WaitingVerdict("")
        for _ in range(8):
            verdict = await bench.answered()
            ((_, pause_s),) = bench.looks
            pauses.append(round(pause_s))
            assert verdict == WaitingVerdict(f"{_AWAY.reason} Asked again in {round(pause_s)} s.")
            asked = len(bench.asked)
            bench.now += pause_s / 2
            assert bench.ask() == verdict, "too early"
            assert bench.looks == [(_FEED, pause_s / 2)]
            assert len(bench.asked) == asked
            bench.now += pause_s / 2 + 0.001
        assert pauses == [1, 2, 4, 8, 15, 15, 15, 15]
        bench.answers[_FEED] = [Admitted()]
        assert bench.ask() == verdict, "what is known stands until there is something new"
        assert await bench.answered() == Admitted()

    _run(scenario)


def test_whoever_says_nothing_is_told_of_after_three_seconds() -> None:
    async def scenario(bench: _Bench) -> None:
        assert bench.ask() == WaitingVerdict("")
        await asyncio.sleep(0)
        assert bench.looks == [(_FEED, 3.0)]
        bench.now += 2
        assert bench.ask() == WaitingVerdict("")
        assert bench.looks == [(_FEED, 1.0)]
        bench.now += 1
        assert bench.ask() == WaitingVerdict("waiting for them. It has not answered for 3 s.")
        assert bench.asked == [_FEED], "the question still stands"
        bench.answers[_FEED] = [Admitted()]
        assert await bench.answered() == Admitted()

    _run(scenario)


def test_silence_after_an_answer_leaves_what_was_answered() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.answers[_FEED] = [_AWAY]
        verdict = await bench.answered()
        bench.now += 1
        for _ in range(2):
            assert bench.ask() == verdict
            await asyncio.sleep(0)
            bench.now += 3

    _run(scenario)


def test_one_feed_that_waits_holds_no_other_one_back() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.answers[_OTHER] = [Admitted()]
        assert bench.ask() == WaitingVerdict("")
        assert await bench.answered(_OTHER) == Admitted()
        assert bench.ask() == WaitingVerdict("")

    _run(scenario)


def test_a_forgotten_feed_is_asked_for_no_more_and_anew_when_it_comes_back() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ask()
        await asyncio.sleep(0)
        bench.questions.forget(_FEED)
        bench.answers[_FEED] = [Admitted()]
        for _ in range(5):
            await asyncio.sleep(0)
        assert (_FEED, 0.0) not in bench.looks
        assert bench.answers == {_FEED: [Admitted()]}, "the question was dropped"
        assert await bench.answered() == Admitted()

    _run(scenario)


def test_nothing_is_asked_after_the_end() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ask()
        bench.ask(_OTHER)
        await asyncio.sleep(0)
        bench.questions.close()
        bench.answers = {_FEED: [Admitted()], _OTHER: [Admitted()]}
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(bench.answers[_FEED]) == len(bench.answers[_OTHER]) == 1

    _run(scenario)


def test_after_an_exception_that_nobody_foresaw_a_feed_waits_and_is_asked_about_again() -> None:
    async def scenario(bench: _Bench) -> None:
        async def ask(_: Tell) -> Verdict:
            raise ArithmeticError("an odd answer")

        bench.questions.verdict(_FEED, ask)
        while (_FEED, 0.0) not in bench.looks:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0)
        verdict = bench.questions.verdict(_FEED, ask)
        assert isinstance(verdict, WaitingVerdict)
        assert "ArithmeticError (test_admission.py" in verdict.reason
        assert "Asked again in" in verdict.reason
        bench.now += 1_000
        bench.answers[_FEED] = [Admitted()]
        assert isinstance(await bench.answered(), Admitted)

    _run(scenario)
