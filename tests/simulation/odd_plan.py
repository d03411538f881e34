"""The oddities of the log of a run of whole workers, and the records of such a log on their way."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from tests.logs import Record
from tests.simulation.odd_logs import FarVersions, WrongTimes, crashed, undated, without_end
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import RangeEnd, RangeId, Snapshot

#: A pause of the source, seconds: longer than anything is waited for.
_PAUSE_S: Final = 1_000.0
_UNREADABLE: Final = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class OddPlan:
    """The oddities of the log of a run.

    Shares of records: ``wrong_time`` of those that begin a few records with wrong times; ``lose_end`` of the
    RangeEnds, and ``lose_snapshot`` of the Snapshots, that never arrive. ``hide_end``: the share of the
    ranges whose end nothing tells, neither a RangeEnd nor another range's Snapshot. At ``mutations`` data
    changes outside the op log, at ``pauses`` the source sleeps for longer than anything is waited for.
    ``breaking``: the share of offsets whose commands break their steps by an exception that nobody foresaw.
    ``far``: the share of commands with one more version, two days ahead. ``undated``: of Snapshots that list
    an intent without a timestamp. ``crash``: of Snapshots in the middle of which the source crashes; it
    begins them again.
    """

    wrong_time: float = 0.0
    lose_end: float = 0.0
    lose_snapshot: float = 0.0
    hide_end: float = 0.0
    mutations: tuple[float, ...] = ()
    pauses: tuple[float, ...] = ()
    pause_s: float = _PAUSE_S
    breaking: float = 0.0
    far: float = 0.0
    undated: float = 0.0
    crash: float = 0.0


#: A log as it should be.
PLAIN: Final = OddPlan()


def draw_odd_log(seed: int, share: float, seconds: float) -> OddPlan:
    """Return the plan for the log of a run of so many seconds. The log is odd in this ``share`` of the seeds.
    The plan is drawn independently of other plans."""
    rng = Random(f"{seed}:odd log")
    if rng.random() >= share:
        return PLAIN
    entries = Random(f"{seed}:odd entries")
    wrong_time = rng.choice((0.0, 0.003, 0.02))
    return OddPlan(
        wrong_time=wrong_time,
        lose_end=rng.choice((0.0, 0.0, 0.3)),
        lose_snapshot=rng.choice((0.0, 0.0, 0.1)),
        mutations=_times(rng, seconds, (0, 0, 0, 1, 3)),
        pauses=_times(rng, seconds, (0, 0, 1, 2)),
        breaking=rng.choice((0.0, 0.0, 0.002, 0.01)),
        hide_end=rng.choice((0.0, 0.0, 0.5)),
        # In a record whose time is far ahead, a version that is far ahead would be believed.
        far=0.0 if wrong_time else entries.choice((0.0, 0.01)),
        undated=entries.choice((0.0, 0.0, 0.1)),
        crash=entries.choice((0.0, 0.3)),
    )


def _times(rng: Random, seconds: float, counts: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(seconds * rng.random() for _ in range(rng.choice(counts)))


class OddLog:
    """Makes the records of a run's log odd on their way, until it is ``calm``.

    It may happen that nothing tells of a range's end. Then the range stays live until a feed waits for it in
    vain (docs/protocols/catch-up.md#silent).
    """

    def __init__(self, plan: OddPlan, partitions: int, seed: int) -> None:
        self._plan = plan
        self._seed = seed
        self._rng = Random(f"{seed}:odd records")
        self._entries = Random(f"{seed}:odd entries on their way")
        self._far = FarVersions(self._entries, plan.far)
        self._times = [WrongTimes(self._rng, plan.wrong_time) for _ in range(partitions)]
        self.calm = plan == PLAIN

    def arriving(self, partition: int, record: Record) -> list[Record]:
        """Return what arrives of a record, if anything."""
        if self.calm:
            return [record]
        crash = self._plan.crash
        if crash and self._entries.random() < crash:
            written = crashed(record, self._entries)
        else:
            written = [self._wrong_in_part(record)]
        sent = [self._sent(partition, each) for each in written]
        return [each for each in sent if each is not None]

    def _wrong_in_part(self, record: Record) -> Record:
        if self._plan.far:
            record = self._far.arriving(record)
        if self._plan.undated and self._entries.random() < self._plan.undated:
            record = undated(record)
        return record

    def _sent(self, partition: int, record: Record) -> Record | None:
        """Return what arrives of a record that the source has written; ``None`` for nothing."""
        plan, rng = self._plan, self._rng
        if plan.hide_end and self._tells_of_hidden(record):
            return None
        if plan.lose_end and rng.random() < plan.lose_end:
            record = without_end(record)
        if plan.lose_snapshot:
            entry = decode_entry(record.key, record.value, is_stored=True)
            if isinstance(entry, Snapshot) and rng.random() < plan.lose_snapshot:
                if rng.random() < 0.5:
                    return None
                record = record._replace(value=_UNREADABLE)
        return self._times[partition].stamped(record) if plan.wrong_time else record

    def _tells_of_hidden(self, record: Record) -> bool:
        """Whether the record would tell of a range's end that is to stay hidden."""
        entry = decode_entry(record.key, record.value, is_stored=True)
        if isinstance(entry, RangeEnd):
            return self._is_hidden(entry.range_id)
        if not isinstance(entry, Snapshot):
            return False
        others = {parent.range_id for parent in entry.parents} - {entry.range_id}
        return any(map(self._is_hidden, others))

    def _is_hidden(self, range_id: RangeId) -> bool:
        return Random(f"{self._seed}:end of {range_id}").random() < self._plan.hide_end
