"""What time it is at the source, as the log of a partition shows it (docs/ranges.md#log-time).

Kafka's record times are the source's clocks, and one of them may be wrong: a single record, a node whose
clock is ahead, a pause of the source. So no record sets the time alone. A record *shows* its time as far as
its range's closed timestamp allows, and log time is what two ranges have shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.raftlog.entry import RangeId

#: So far above what its range has closed a record's time counts. Sources close about 3 s behind the present.
ABOVE_CLOSED_MS: Final = 5_000
#: So far may the range with the highest time be in front of the second one.
LEAD_MS: Final = 5_000
#: So much at most elapses between two looks at the clock, whatever the record times say.
STEP_MS: Final = 30_000
#: A clock that has fallen by so much, and stays there, has gone back.
BACK_MS: Final = 10_000
#: A range that has said nothing while others were heard so often is not waited for. A range counts as heard
#: again when its clock has moved by ``_GRAIN_MS``.
HEARINGS: Final = 32
_GRAIN_MS: Final = 1_000
#: Of records whose time is not in front of log time one in so many is heard.
_PASSED_MAX: Final = 32
#: So many ranges are known, those with the highest times.
_VOICES_MAX: Final = 8
#: Who has shown the time that was stored without saying who had.
_NOBODY: Final = RangeId(0)


class Voice(NamedTuple):
    """The time that a range has shown: ``shown_ms``, with ``closed_ms`` as its closed timestamp.

    It was heard as the ``heard``-th, when ``counted_ms`` was shown at the latest.
    """

    range_id: RangeId
    shown_ms: int
    closed_ms: int
    counted_ms: int
    heard: int


@dataclass(frozen=True, slots=True)
class ClockState:
    """What is stored of a clock."""

    elapsed_ms: int = 0
    counted_ms: int = 0
    hearings: int = 0
    passed: int = 0
    fell_at: int | None = None
    voices: tuple[Voice, ...] = ()


class LogClock:
    """The time of one log partition, in milliseconds; 0 before any record has shown a time.

    ``time_ms`` is *log time*: where the source's clock stands, also after it was set back. ``shown_ms`` is
    what two ranges have shown, or the only one: never above ``time_ms``. ``elapsed_ms`` is *elapsed log
    time*, by which waits are measured: it never falls, and a jump of the clock, or a pause of the source,
    counts for ``STEP_MS`` at most. Only differences of it mean anything; it is never 0.
    """

    __slots__ = (
        "_counted_ms",
        "_fell_at",
        "_hearings",
        "_passed",
        "_voices",
        "elapsed_ms",
        "shown_ms",
        "time_ms",
    )

    def __init__(self) -> None:
        self.time_ms = self.shown_ms = 0
        self.elapsed_ms = 1
        self._counted_ms = self._hearings = self._passed = 0
        #: Which hearing found that the clock had fallen, if it stays there.
        self._fell_at: int | None = None
        self._voices: dict[RangeId, Voice] = {}

    def wants(self, time_ms: int) -> bool:
        """Whether the record that comes next, with this time, is to be heard.

        Few have to be: those that are in front of log time, and of the others some, for it may be ahead.
        """
        if time_ms <= self.time_ms:
            self._passed += 1
            if self._passed < _PASSED_MAX:
                return False
        self._passed = 0
        return True

    def hear(self, range_id: RangeId, time_ms: int, closed_ms: int) -> None:
        """A record of the range came with this time, and the range has closed up to ``closed_ms``.

        A range that has closed nothing shows nothing.
        """
        known = self._voices.get(range_id)
        if known is not None:
            closed_ms = max(closed_ms, known.closed_ms)
        if not closed_ms:
            return
        shown_ms = min(time_ms, closed_ms + ABOVE_CLOSED_MS)
        counted_ms, heard = (shown_ms, 0) if known is None else (known.counted_ms, known.heard)
        if known is None or abs(shown_ms - counted_ms) >= _GRAIN_MS:
            counted_ms = shown_ms
            self._hearings += 1
            heard = self._hearings
            self._forget_silent()
        self._voices[range_id] = Voice(range_id, shown_ms, closed_ms, counted_ms, heard)
        if len(self._voices) > _VOICES_MAX:
            del self._voices[min(self._voices.values(), key=_shown).range_id]
        self._settle()

    def forget(self, range_id: RangeId) -> None:
        """The range has ended, and shows nothing any more."""
        self._voices.pop(range_id, None)

    def when(self, elapsed_ms: int) -> int:
        """Log time as it would have been at a moment of elapsed log time, for people."""
        return self.time_ms - (self.elapsed_ms - elapsed_ms)

    def _forget_silent(self) -> None:
        last = self._hearings - HEARINGS
        for voice in [voice for voice in self._voices.values() if voice.heard <= last]:
            del self._voices[voice.range_id]

    def _settle(self) -> None:
        first = second = 0
        for _, shown_ms, *_ in self._voices.values():
            if shown_ms > first:
                first, second = shown_ms, first
            elif shown_ms > second:
                second = shown_ms
        if len(self._voices) == 1:
            second = first
        self.shown_ms, self.time_ms = second, min(first, second + LEAD_MS)
        self._count()

    def _count(self) -> None:
        """Let time elapse as far as the clock has moved on."""
        moved_ms = self.time_ms - self._counted_ms
        if not self._counted_ms:
            self._counted_ms = self.time_ms
        elif moved_ms >= 0:
            self.elapsed_ms += min(moved_ms, STEP_MS)
            self._counted_ms, self._fell_at = self.time_ms, None
        elif moved_ms > -BACK_MS:
            self._fell_at = None
        elif self._fell_at is None:
            self._fell_at = self._hearings
        elif self._hearings - self._fell_at >= HEARINGS:
            self._counted_ms, self._fell_at = self.time_ms, None

    # ---- stored

    def state(self) -> ClockState:
        """What to store: enough to go on as if nothing had happened."""
        voices = tuple(sorted(self._voices.values()))
        return ClockState(
            self.elapsed_ms, self._counted_ms, self._hearings, self._passed, self._fell_at, voices
        )

    def restore(self, stored: ClockState) -> None:
        """Go on as the clock that ``stored`` was taken of."""
        self.elapsed_ms, self._counted_ms = stored.elapsed_ms, stored.counted_ms
        self._hearings, self._passed, self._fell_at = stored.hearings, stored.passed, stored.fell_at
        self._voices = {voice.range_id: voice for voice in stored.voices}
        if self._voices:
            self._settle()

    def guess(self, time_ms: int, closed_ms: Iterable[int]) -> None:
        """Begin with the highest record time that an earlier version of tidegate stored.

        It may be far ahead, so it is a hint: it counts as far as what ranges have closed allows, and until
        ranges have been heard.
        """
        if time_ms:
            self.elapsed_ms = time_ms  # scans were stored with the times at which they were asked for
            self.hear(_NOBODY, time_ms, max(closed_ms, default=0) or time_ms)


def _shown(voice: Voice) -> int:
    return voice.shown_ms
