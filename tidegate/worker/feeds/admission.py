"""Finds out whether a new feed may be announced, in the background, while no partition waits for the feed.

From its registration to its activation a feed holds every log partition. If it then had to wait for a server,
all feeds would wait. So the servers are asked before: the feed is pending meanwhile, and its state says what
it waits for. ``sink_answers`` asks Kafka clusters, ``feed_registries`` asks schema registries. When to ask
again, and what to say of a server that is silent, is the same for both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.feed_faults import FeedFaults
from tidegate.errors import SettingsError
from tidegate.worker.operations.metrics import INCIDENTS
from tidegate.worker.process.ending import guarded_task

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0
#: After so many seconds without an answer the feed's state says so.
SILENCE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """The verdict that the feed may be announced."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class WaitingVerdict:
    """The verdict that the feed has to wait. ``reason`` is a sentence; empty while there is none to tell."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The verdict that the feed can never be announced. ``reason`` is a sentence."""

    reason: str


Verdict: TypeAlias = Admitted | WaitingVerdict | Refused
#: Is called with a feed, and with the number of seconds after which its verdict should be looked at.
LookAt: TypeAlias = Callable[[FeedId, float], None]
#: Takes the sentence that says what the feed waits for now.
Tell: TypeAlias = Callable[[str], None]
#: Asks once. It first tells what it waits for. After a ``WaitingVerdict`` it is called again.
Ask: TypeAlias = Callable[[Tell], Awaitable[Verdict]]


@dataclass(slots=True)
class _Question:
    """The question about one feed: the last verdict, and when to ask again. Times are in seconds."""

    verdict: Verdict = field(default_factory=lambda: WaitingVerdict(""))
    waits_for: str = ""
    pause_s: float = _FIRST_PAUSE_S
    begun: float = 0.0
    due: float = 0.0
    task: asyncio.Task[None] | None = None

    def tell(self, waits_for: str) -> None:
        self.waits_for = waits_for


class Questions:
    """One question for each feed, repeated with longer and longer pauses until the answer is final.

    ``about`` stands in the names of tasks, and says what is asked about. ``clock`` is monotonic.
    """

    def __init__(self, about: str, look_at: LookAt, clock: Callable[[], float] = time.monotonic) -> None:
        self._about = about
        self._look_at = look_at
        self._clock = clock
        self._faults = FeedFaults(INCIDENTS.labels("jobs").inc)
        self._questions: dict[FeedId, _Question] = {}

    def verdict(self, feed_id: FeedId, ask: Ask) -> Verdict:
        """Return the last verdict, and begin to ask again if that is due. Never waits.

        If ``ask`` raises an exception, the feed waits, and the question is asked again (U7).
        """
        question = self._questions.setdefault(feed_id, _Question())
        if question.task is not None:
            self._note_silence(feed_id, question)
        elif isinstance(question.verdict, WaitingVerdict):
            self._ask_if_due(feed_id, question, ask)
        return question.verdict

    def forget(self, feed_id: FeedId) -> None:
        """Forget a feed that was announced, or has ended. Its open question is cancelled."""
        question = self._questions.pop(feed_id, None)
        if question is not None and question.task is not None:
            question.task.cancel()

    def close(self) -> None:
        """Cancel all questions."""
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
        try:
            verdict = await ask(question.tell)
        except SettingsError as error:
            verdict = WaitingVerdict(f"{question.waits_for} {error}.")
        except Exception as error:
            verdict = WaitingVerdict(f"{question.waits_for} {self._faults.reported(feed_id, error)}.")
        if isinstance(verdict, WaitingVerdict):
            verdict = WaitingVerdict(f"{verdict.reason} Asked again in {question.pause_s:.0f} s.")
            question.due = self._clock() + question.pause_s
            question.pause_s = min(2 * question.pause_s, _LONGEST_PAUSE_S)
        question.verdict, question.task = verdict, None
        self._look_at(feed_id, 0.0)
