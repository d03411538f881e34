"""Whether a new feed may be announced, asked in the background while nobody waits for the feed yet.

From its registration to its activation a feed holds every log partition. One that then had to wait for
somebody outside would make all feeds wait, so they are asked before: the feed is pending meanwhile, and its
state says for what. ``feed_sinks`` asks Kafka clusters and ``feed_registries`` schema registries; when to ask
again, and what to say of silence, is the same for both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import FeedId
from tidegate.worker.process.ending import guarded_task

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0
#: A question that has no answer after this time is told of.
SILENCE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """The feed may be announced."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class WaitingVerdict:
    """It may not yet; ``reason`` is a sentence, empty while the first question is young."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It never will be."""

    reason: str


Verdict: TypeAlias = Admitted | WaitingVerdict | Refused
#: Called with a feed and the seconds after which, at the latest, its verdict should be looked at.
LookAt: TypeAlias = Callable[[FeedId, float], None]
#: Takes the sentence that says for whom the feed waits now.
Tell: TypeAlias = Callable[[str], None]
#: Asks once. It first tells for whom it waits; a ``WaitingVerdict`` may be another one next time.
Ask: TypeAlias = Callable[[Tell], Awaitable[Verdict]]


@dataclass(slots=True)
class _Question:
    """What is known of a feed, and when to ask again."""

    verdict: Verdict = field(default_factory=lambda: WaitingVerdict(""))
    waits_for: str = ""
    pause_s: float = _FIRST_PAUSE_S
    begun: float = 0.0
    due: float = 0.0
    task: asyncio.Task[None] | None = None

    def tell(self, waits_for: str) -> None:
        self.waits_for = waits_for


class Questions:
    """One question per feed, repeated with longer and longer pauses until the answer is final.

    ``about`` names whom is asked, in the names of tasks; ``clock`` is monotonic.
    """

    def __init__(self, about: str, look_at: LookAt, clock: Callable[[], float] = time.monotonic) -> None:
        self._about = about
        self._look_at = look_at
        self._clock = clock
        self._questions: dict[FeedId, _Question] = {}

    def verdict(self, feed_id: FeedId, ask: Ask) -> Verdict:
        """What is known at the moment; asks if it is time to. Never waits.

        An error that ``ask`` raises ends the process.
        """
        question = self._questions.setdefault(feed_id, _Question())
        if question.task is not None:
            self._note_silence(feed_id, question)
        elif isinstance(question.verdict, WaitingVerdict):
            self._ask_if_due(feed_id, question, ask)
        return question.verdict

    def forget(self, feed_id: FeedId) -> None:
        """The feed was announced, or has ended."""
        question = self._questions.pop(feed_id, None)
        if question is not None and question.task is not None:
            question.task.cancel()

    def close(self) -> None:
        """Ask nothing more."""
        for feed_id in list(self._questions):
            self.forget(feed_id)

    def _note_silence(self, feed_id: FeedId, question: _Question) -> None:
        asked_s = self._clock() - question.begun
        if asked_s < SILENCE_S:
            self._look_at(feed_id, SILENCE_S - asked_s)
        elif question.verdict == WaitingVerdict(""):
            question.verdict = WaitingVerdict(
                f"{question.waits_for} It has not answered for {SILENCE_S:.0f} s."
            )

    def _ask_if_due(self, feed_id: FeedId, question: _Question, ask: Ask) -> None:
        now = self._clock()
        if now < question.due:
            self._look_at(feed_id, question.due - now)
            return
        question.begun = now
        question.task = guarded_task(self._answer(feed_id, question, ask), f"{self._about} of {feed_id}")
        self._look_at(feed_id, SILENCE_S)

    async def _answer(self, feed_id: FeedId, question: _Question, ask: Ask) -> None:
        verdict = await ask(question.tell)
        if isinstance(verdict, WaitingVerdict):
            verdict = WaitingVerdict(f"{verdict.reason} Asked again in {question.pause_s:.0f} s.")
            question.due = self._clock() + question.pause_s
            question.pause_s = min(2 * question.pause_s, _LONGEST_PAUSE_S)
        question.verdict, question.task = verdict, None
        self._look_at(feed_id, 0.0)
