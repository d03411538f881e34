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
#: So much of its new time has to pass before a clock that has gone back is believed.
SETTLED_MS: Final = 30_000
#: A range that has closed nothing while others were heard so often is not waited for. A range counts as heard
#: again when it has closed ``_GRAIN_MS`` more: closed timestamps never fall, where record times may flutter.
HEARINGS: Final = 32
_GRAIN_MS: Final = 1_000
#: Of records whose time is not in front of log time one in so many is heard, and more of those that are so
#: far below it that it may be ahead. Ranges are written by turns, and each nth record could be of one range
#: for ever: so it is up to ``_SHIFTS - 1`` records earlier, by the record's time.
_ONE_IN: Final = 32
_ONE_IN_FAR_BELOW: Final = 5
_SHIFTS: Final = 3
#: What ranges that are not known have closed at most is forgotten when so many of them, one after the other,
#: have closed less: whoever had closed that much has fallen silent, and its clock was ahead.
BELOW_MAX: Final = 32
#: So many ranges that are waited for are known, those with the highest times, and as many that are not.
_VOICES_MAX: Final = 8
#: Who has shown the time that was stored without saying who had.
_NOBODY: Final = RangeId(0)


class Voice(NamedTuple):
    """The time that a range has shown: ``shown_ms``, with ``closed_ms`` as its closed timestamp.

    It was heard as the ``heard``-th, when it had closed ``counted_ms``.
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
    others_ms: int = 0
    below: int = 0


class LogClock:
    """The time of one log partition, in milliseconds; 0 before any record has shown a time.

    ``time_ms`` is *log time*: where the source's clock stands, also after it was set back. ``shown_ms`` is
    what two ranges have shown, or the only one: never above ``time_ms``. ``closed_ms`` is what two have
    closed, or the only one: the source's own word for a time that has come. ``elapsed_ms`` is *elapsed log
    time*, by which waits are measured: it never falls, and a jump of the clock, or a pause of the source,
    counts for ``STEP_MS`` at most. Only differences of it mean anything; it is never 0.
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
        #: The most that ranges that are not known have closed, all of them as one; and how many of them have
        #: closed less since, with none between that has not.
        self._others_ms = self._below = 0
        #: Where the clock stood when it was found to have fallen, if it stays there.
        self._fell_at: int | None = None
        self._voices: dict[RangeId, Voice] = {}

    def wants(self, time_ms: int) -> bool:
        """Whether the record that comes next, with this time, is to be heard.

        Few have to be: those that are in front of log time, and of the others some, for it may be ahead.
        """
        if time_ms > self.time_ms:
            return True
        self._passed += 1
        if self._passed < _ONE_IN and (self._passed < _ONE_IN_FAR_BELOW or time_ms > self.time_ms - BACK_MS):
            return False
        self._passed = time_ms % _SHIFTS
        return True

    def hear(self, range_id: RangeId, time_ms: int, closed_ms: int, *, rose: bool = True) -> None:
        """A record of the range came with this time, and the range has closed up to ``closed_ms``.

        ``rose``: it has closed more by this record. A range that has closed nothing shows nothing, and one
        that is not known shows nothing by a record that closes no more.
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
        """The range has ended, and shows nothing any more."""
        self._voices.pop(range_id, None)

    def when(self, elapsed_ms: int) -> int:
        """Log time as it would have been at a moment of elapsed log time, for people."""
        return self.time_ms - (self.elapsed_ms - elapsed_ms)

    def _is_silent(self, voice: Voice) -> bool:
        """Whether it is not waited for. It is still known: what it shows next is no news unless it closes."""
        return voice.heard <= self._hearings - HEARINGS

    def _forget_those_too_many(self) -> None:
        """Of those that are waited for, forget the one that shows least; of the others, who was heard first.

        A range that is forgotten is heard all the same, as one of many.
        """
        silent = sorted((voice for voice in self._voices.values() if self._is_silent(voice)), key=_heard)
        for voice in silent[:-_VOICES_MAX]:
            del self._voices[voice.range_id]
        waited_for = [voice for voice in self._voices.values() if not self._is_silent(voice)]
        if len(waited_for) > _VOICES_MAX:
            forgotten = self._voices.pop(min(waited_for, key=_shown).range_id)
            self._hear_one_of_many(forgotten)

    def _hear_one_of_many(self, voice: Voice) -> None:
        """Count a range that is not known: so many that come one after the other are no more than one.

        When those that are waited for fall silent by this, the range is known: it is the one that is heard.
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
        """Find out what two ranges of those that are waited for have shown, and closed."""
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
            self._fell_at = self.time_ms
        elif self.time_ms - self._fell_at >= SETTLED_MS:
            self._counted_ms, self._fell_at = self.time_ms, None

    # ---- stored

    def state(self) -> ClockState:
        """What to store: enough to go on as if nothing had happened."""
        voices = tuple(sorted(self._voices.values()))
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
        """Go on as the clock that ``stored`` was taken of."""
        self.elapsed_ms, self._counted_ms = stored.elapsed_ms, stored.counted_ms
        self._hearings, self._passed, self._fell_at = stored.hearings, stored.passed, stored.fell_at
        self._others_ms, self._below = stored.others_ms, stored.below
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


def _heard(voice: Voice) -> int:
    return voice.heard
