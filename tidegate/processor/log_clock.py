"""The time at the source, as the log of a partition shows it (docs/protocols/log-time.md).

Kafka's record times come from clocks of the source, and such a clock may be wrong: in a single record, on a
node whose clock is ahead, after a pause. So no record sets log time alone. A record *shows* its record time,
but not more than 5 s above its range's closed timestamp; log time is at most 5 s above what two ranges
have shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.raftlog.entry import RangeId

#: A record's time counts only up to this far above its range's closed timestamp (L1). Sources close about 3 s
#: behind the present.
ABOVE_CLOSED_MS: Final = 5_000
#: Log time may be at most this far above the second highest time that a range has shown (L2).
LEAD_MS: Final = 5_000
#: The most that elapses between two looks at the clock, whatever the record times say (L4).
STEP_MS: Final = 30_000
#: A clock has gone back when it has fallen by this much and stays there (L4).
BACK_MS: Final = 10_000
#: A clock that has gone back is believed when this much of its new time has passed (L4).
SETTLED_MS: Final = 30_000
#: A range is silent, and not waited for, when ranges were heard this often since it was heard itself (L3). It
#: is heard again when it has closed ``_GRAIN_MS`` more: closed timestamps never fall, but record times
#: flutter.
HEARINGS: Final = 32
_GRAIN_MS: Final = 1_000
#: If a record's time is not above log time, only one such record in ``_ONE_IN`` is heard. If it is far below,
#: log time may be ahead, so more are heard: one in ``_ONE_IN_FAR_BELOW``. Ranges are written by turns, so
#: each 32nd record might be of one range for ever. To avoid that, the next record is heard fewer than
#: ``_SHIFTS`` records earlier; the time of the record that was heard decides how many.
_ONE_IN: Final = 32
_ONE_IN_FAR_BELOW: Final = 5
_SHIFTS: Final = 3
#: The highest timestamp that unknown ranges have closed is forgotten when this many records of them, one
#: after the other, have closed less (L8): the range that had closed it is silent, and its clock was ahead.
BELOW_MAX: Final = 32
#: The most ranges that are waited for and known: those with the highest times. The same number of silent
#: ranges may be known too (L7).
_VOICES_MAX: Final = 8
#: Stands for the range that has shown a time that an earlier version stored without its range.
_NOBODY: Final = RangeId(0)


class Voice(NamedTuple):
    """A known range, and the time that it has shown, ``shown_ms``, with its closed timestamp ``closed_ms``.

    The clock counts how often ranges were heard (L3). ``heard`` is that count when this range was heard last,
    or became known. ``counted_ms`` is what the range had closed then.
    """

    range_id: RangeId
    shown_ms: int
    closed_ms: int
    counted_ms: int
    heard: int


@dataclass(frozen=True, slots=True)
class ClockState:
    """The stored form of a log clock."""

    elapsed_ms: int = 0
    counted_ms: int = 0
    hearings: int = 0
    passed: int = 0
    fell_at: int | None = None
    voices: tuple[Voice, ...] = ()
    others_ms: int = 0
    below: int = 0


class ClockReading(NamedTuple):
    """A log clock at one moment, with its voices in the order in which they became known."""

    time_ms: int
    shown_ms: int
    closed_ms: int
    state: ClockState


class LogClock:
    """The clock of one log partition, in milliseconds; its times are 0 before any record has shown one.

    ``time_ms`` is *log time*: what the source's clock says, also after it was set back. ``shown_ms`` is the
    time that two ranges have shown, or the only range; it is never above ``time_ms``. ``closed_ms`` is the
    time that two ranges have closed, or the only range; a source may close a little ahead. ``elapsed_ms``
    is *elapsed log time*, by which waits are measured. It never falls, and a jump of the clock, or a pause of
    the source, counts for ``STEP_MS`` at most. Only differences of it mean anything; it is never 0.
    """

    __slots__ = (
        "_below",
        "_counted_ms",
        "_fell_at",
        "_hearings",
        "_others_ms",
        "_passed",
        "_voices",
        "closed_ms",
        "elapsed_ms",
        "shown_ms",
        "time_ms",
    )

    def __init__(self) -> None:
        self.time_ms = self.shown_ms = self.closed_ms = 0
        self.elapsed_ms = 1
        self._counted_ms = self._hearings = self._passed = 0
        #: The highest timestamp that unknown ranges have closed, all of them as one (L8); and how many of
        #: their records since, one after the other, have closed less.
        self._others_ms = self._below = 0
        #: The log time at which the clock was found to have fallen; ``None`` if it has not, or came back.
        self._fell_at: int | None = None
        self._voices: dict[RangeId, Voice] = {}

    def wants(self, time_ms: int) -> bool:
        """Whether the next record, which has this record time, is to be heard.

        Each record whose time is above log time is heard. Some of the others are heard too, since log time
        may be ahead.
        """
        if time_ms > self.time_ms:
            return True
        self._passed += 1
        if self._passed < _ONE_IN and (self._passed < _ONE_IN_FAR_BELOW or time_ms > self.time_ms - BACK_MS):
            return False
        self._passed = time_ms % _SHIFTS
        return True

    def hear(self, range_id: RangeId, time_ms: int, closed_ms: int, *, rose: bool = True) -> None:
        """Hear a record of a range with this record time; the range has closed up to ``closed_ms``.

        ``rose``: the record has closed more than the range had closed before. A range that has closed nothing
        shows nothing. A record of an unknown range shows nothing either if it closes no more than was closed
        before (L7).
        """
        known = self._voices.get(range_id)
        if known is not None:
            closed_ms = max(closed_ms, known.closed_ms)
        elif not rose:
            return
        if not closed_ms:
            return
        shown_ms = min(time_ms, closed_ms + ABOVE_CLOSED_MS)
        if known is None:
            self._voices[range_id] = Voice(range_id, shown_ms, closed_ms, closed_ms, self._hearings)
            self._forget_those_too_many()
        elif closed_ms - known.counted_ms >= _GRAIN_MS:
            self._hearings += 1
            self._voices[range_id] = Voice(range_id, shown_ms, closed_ms, closed_ms, self._hearings)
            self._forget_those_too_many()
        else:
            self._voices[range_id] = known._replace(shown_ms=shown_ms, closed_ms=closed_ms)
        self._settle()

    def forget(self, range_id: RangeId) -> None:
        """Forget a range that has ended: it shows nothing any more."""
        self._voices.pop(range_id, None)

    def when(self, elapsed_ms: int) -> int:
        """Return what log time was, about, at a moment of elapsed log time. It is for people to read."""
        return self.time_ms - (self.elapsed_ms - elapsed_ms)

    def _is_silent(self, voice: Voice) -> bool:
        """Whether a known range is silent, so that it is not waited for (L3)."""
        return voice.heard <= self._hearings - HEARINGS

    def _forget_those_too_many(self) -> None:
        """Forget known ranges beyond ``_VOICES_MAX`` silent ones and as many that are waited for (L7).

        Of the silent ranges, those heard longest ago are forgotten. Of the ranges that are waited for, the
        one that shows the lowest time is forgotten, and counts among the unknown ranges from then on.
        """
        silent = sorted((voice for voice in self._voices.values() if self._is_silent(voice)), key=_heard)
        for voice in silent[:-_VOICES_MAX]:
            del self._voices[voice.range_id]
        waited_for = [voice for voice in self._voices.values() if not self._is_silent(voice)]
        if len(waited_for) > _VOICES_MAX:
            forgotten = self._voices.pop(min(waited_for, key=_shown).range_id)
            self._hear_one_of_many(forgotten)

    def _hear_one_of_many(self, voice: Voice) -> None:
        """Hear a range that is not known: all such ranges count as one (L8).

        If known ranges fall silent by this, the range is known from then on (L9).
        """
        more_ms = voice.closed_ms - self._others_ms
        if more_ms <= -_GRAIN_MS:
            self._below += 1
            if self._below >= BELOW_MAX:
                self._others_ms, self._below = voice.closed_ms, 0
            return
        self._below = 0
        if more_ms < _GRAIN_MS:
            return
        self._others_ms = voice.closed_ms
        self._hearings += 1
        if sum(not self._is_silent(each) for each in self._voices.values()) < _VOICES_MAX:
            self._voices[voice.range_id] = voice._replace(counted_ms=voice.closed_ms, heard=self._hearings)

    def _settle(self) -> None:
        """Work out what two of the ranges that are waited for have shown, and closed (L2)."""
        last = self._hearings - HEARINGS
        count = first = second = first_closed = second_closed = 0
        for _, shown_ms, closed_ms, _, heard in self._voices.values():
            if heard <= last:
                continue
            count += 1
            if shown_ms > first:
                first, second = shown_ms, first
            elif shown_ms > second:
                second = shown_ms
            if closed_ms > first_closed:
                first_closed, second_closed = closed_ms, first_closed
            elif closed_ms > second_closed:
                second_closed = closed_ms
        if not count:
            return
        if count == 1:
            second, second_closed = first, first_closed
        self.shown_ms, self.time_ms = second, min(first, second + LEAD_MS)
        self.closed_ms = second_closed
        self._count()

    def _count(self) -> None:
        """Let as much time elapse as log time has moved on since the last count, ``STEP_MS`` at most (L4)."""
        moved_ms = self.time_ms - self._counted_ms
        if not self._counted_ms:
            self._counted_ms = self.time_ms
        elif moved_ms >= 0:
            self.elapsed_ms += min(moved_ms, STEP_MS)
            self._counted_ms, self._fell_at = self.time_ms, None
        elif moved_ms > -BACK_MS:
            self._fell_at = None
        elif self._fell_at is None:
            self._fell_at = self.time_ms
        elif self.time_ms - self._fell_at >= SETTLED_MS:
            self._counted_ms, self._fell_at = self.time_ms, None

    # ---- stored

    def state(self) -> ClockState:
        """Return the stored form, with which a restored clock goes on as if nothing had happened (L6)."""
        return self._state(tuple(sorted(self._voices.values())))

    def _state(self, voices: tuple[Voice, ...]) -> ClockState:
        return ClockState(
            self.elapsed_ms,
            self._counted_ms,
            self._hearings,
            self._passed,
            self._fell_at,
            voices,
            self._others_ms,
            self._below,
        )

    def restore(self, stored: ClockState) -> None:
        """Take over the time of the clock that gave ``stored``."""
        self._take_over(stored)
        if self._voices:
            self._settle()

    def reading(self) -> ClockReading:
        """Return the present reading of the clock."""
        state = self._state(tuple(self._voices.values()))
        return ClockReading(self.time_ms, self.shown_ms, self.closed_ms, state)

    def go_on(self, reading: ClockReading) -> None:
        """Go on from a reading, as the clock that gave it would."""
        self.time_ms, self.shown_ms, self.closed_ms, state = reading
        self._take_over(state)

    def _take_over(self, stored: ClockState) -> None:
        self.elapsed_ms, self._counted_ms = stored.elapsed_ms, stored.counted_ms
        self._hearings, self._passed, self._fell_at = stored.hearings, stored.passed, stored.fell_at
        self._others_ms, self._below = stored.others_ms, stored.below
        self._voices = {voice.range_id: voice for voice in stored.voices}

    def guess(self, time_ms: int, closed_ms: Iterable[int]) -> None:
        """Begin with ``time_ms``, the highest record time that an earlier version of tidegate stored.

        It may be far ahead, so it is only a hint. It counts only up to ``ABOVE_CLOSED_MS`` above what ranges
        have closed, and only until ranges are heard.
        """
        if time_ms:
            self.elapsed_ms = time_ms  # with its scans, that version stored the record times of its requests
            self.hear(_NOBODY, time_ms, max(closed_ms, default=0) or time_ms)


def _shown(voice: Voice) -> int:
    return voice.shown_ms


def _heard(voice: Voice) -> int:
    return voice.heard
