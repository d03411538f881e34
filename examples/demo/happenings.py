"""Tells what happened to a demo's store and workers, to people who do not know the simulator.

Markers stay where they are while a transaction is open. Most are open for milliseconds. Some are abandoned on
purpose: their coordinator dies before it decides. Markers wait until the feed's engine pushes such a
transaction. The store then aborts it if its coordinator has been dead for long enough. If not, it moves the
transaction up, and markers go on up to the push.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from sim.store.moments import EndedBy, Moment, MomentKind
from tidegate.hlc import NANOS_PER_MS

_MS_PER_SECOND: Final = 1_000

_ENDED_BY: Final = {
    EndedBy.PUSH: "was pushed and aborted",
    EndedBy.WRITE: "was aborted by a transaction that met its intents",
    EndedBy.SCAN: "was aborted by a scan that met its intents",
    EndedBy.STOP: "was aborted when the store stopped",
}


class Kind(Enum):
    """The kind of a happening. The plot draws each kind in its own way."""

    ABANDONED = "a transaction is abandoned"
    PUSHED = "it is pushed, and no longer holds markers"
    ENDED = "it is aborted"
    RANGES = "a range splits or merges"
    DISTURBED = "a process is killed"


class Happening(NamedTuple):
    """Something that happened ``at_ns`` of the wall clock.

    ``txn`` is the transaction that it is about, if any. If markers stop waiting for that transaction at this
    moment, ``began_ns`` says since when they waited.
    """

    at_ns: int
    kind: Kind
    text: str
    txn: str = ""
    began_ns: int | None = None


def happening(moment: Moment, pushed_after_s: float, others: bool = False) -> Happening:
    """Return a store's moment as a happening, with a text for people.

    Abandoned transactions of the store are pushed after ``pushed_after_s`` seconds. ``others`` says that
    markers wait for another abandoned transaction as well.
    """
    if moment.kind in (MomentKind.ABANDONED, MomentKind.PUSHED, MomentKind.ENDED):
        return _of_transaction(moment, pushed_after_s, others)
    first, second = moment.ranges
    tables = _named(moment)
    text = {
        MomentKind.SPLIT: f"range {first} of {tables} split: {second} is new",
        MomentKind.MERGED: f"range {second} of {tables} merged into {first}",
    }[moment.kind]
    return Happening(moment.at_ns, Kind.RANGES, text)


def disturbance(at_ns: int, text: str) -> Happening:
    """Return a happening: what the demo itself did to a process."""
    return Happening(at_ns, Kind.DISTURBED, text)


def _of_transaction(moment: Moment, pushed_after_s: float, others: bool) -> Happening:
    about = f"transaction of {_named(moment)}"
    if moment.kind is MomentKind.ABANDONED:
        text = f"{about} abandoned: markers wait until it is pushed, {pushed_after_s:.0f} s"
        return Happening(moment.at_ns, Kind.ABANDONED, text, moment.txn)
    kind = Kind.PUSHED if moment.kind is MomentKind.PUSHED else Kind.ENDED
    what = "was pushed" if kind is Kind.PUSHED else _ENDED_BY[moment.ended_by or EndedBy.STOP]
    text = f"{about} {what} after {moment.open_ms / _MS_PER_SECOND:.1f} s"
    if moment.moved:
        return Happening(moment.at_ns, kind, text, moment.txn)
    began_ns = moment.at_ns - moment.open_ms * NANOS_PER_MS
    then = "markers still wait for another one" if others else "markers go on"
    return Happening(moment.at_ns, kind, f"{text}: {then}", moment.txn, began_ns)


def _named(moment: Moment) -> str:
    return f"table{'s' if len(moment.tables) > 1 else ''} {' and '.join(moment.tables)}"
