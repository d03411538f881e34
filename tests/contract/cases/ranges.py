"""Cases of ranges: holes of every kind, idleness, starts in the middle, records that come twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.contract.case import Case, World
from tests.hand_log import HandRange, HandTable, at, intent
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import SnapshotReason, Trigger

Breakage = Callable[[World, HandRange, HandTable], None]


def _garbage(world: World, broken: HandRange, table: HandTable) -> None:
    world.write_bytes(broken.id % 3, encode_key(broken.id), b"\xff\xff")


def _gap(world: World, broken: HandRange, table: HandTable) -> None:
    broken.index += 1


def _no_op_log(world: World, broken: HandRange, table: HandTable) -> None:
    broken.index += 1
    world.write(broken.command()._replace(ops=None, write_batch=b"writes"))


def _late_write(world: World, broken: HandRange, table: HandTable) -> None:
    broken.apply(table.put(2, 1, "late"))


def _broken_off(world: World, broken: HandRange, table: HandTable) -> None:
    broken.apply(intent(1, 6), close=7)
    broken.apply(table.commit(1, 7, 2, "lost"), table.put(2, 1, "late"))


def _fallen_generation(world: World, broken: HandRange, table: HandTable) -> None:
    broken.generation = 0
    broken.apply()


def _raft_snapshot(world: World, broken: HandRange, table: HandTable) -> None:
    broken.index += 4
    broken.snapshot(close=6, high=6)


def _quarantine(breakage: Breakage, world: World) -> None:
    """One of three ranges breaks after second 5; another feed's ranges share its partition."""
    table, other = world.table(), world.table()
    low, high = table.split(5)
    broken, healthy, beside = world.range(low), world.range(high), world.range(other.span)
    same_partition = beside.id % 3
    broken.apply(table.put(3, 1, "before"), close=5)
    breakage(world, broken, table)
    broken.apply(table.put(7, 1, "lost"), close=7)
    for second in range(1, 9):
        healthy.apply(table.put(second, 6, f"{second}"), close=second)
        beside.apply(other.put(second, same_partition, f"{second}"), close=second)
    world.feed(table)
    world.feed(other)


def _changed_in_a_hole(breakage: Breakage, world: World) -> None:
    """Rows change outside the op log while their range is in a hole: its feed fails, without row or marker.

    The snapshot after the hole would heal the range without a scan.
    """
    table, other = world.table(), world.table()
    broken, beside = world.range(table.span), world.range(other.span)
    breakage(world, broken, table)
    broken.apply(trigger=Trigger.ADD_SSTABLE)
    broken.snapshot(close=1)
    for second in range(2, 9):
        broken.apply(table.put(second, 1, f"{second}"), close=second)
        beside.apply(other.put(second, 1, f"{second}"), close=second)
    world.feed(table, start=at(1))
    world.feed(other)


def _nameless_record(world: World) -> None:
    """A record without a readable key: every range of its partition stops, no other does."""
    table, other = world.table(), world.table()
    ranges = [world.range(span) for span in table.split(5)]
    beside = world.range(other.span)
    for second in range(1, 9):
        if second == 5:
            world.write_bytes(0, b"?", b"?")
        for number, each in enumerate(ranges):
            each.apply(table.put(second, 5 * number, f"{second}"), close=second)
        beside.apply(other.put(second, 1, f"{second}"), close=second)
    world.feed(table)
    world.feed(other)


def _idle(world: World) -> None:
    """Ranges have no rows. Heartbeats move the markers, also heartbeats that come before the entries that
    they cover."""
    table = world.table()
    low, high = table.split(5)
    idle, busy = world.range(low), world.range(high)
    for second in range(1, 12):
        busy.heartbeat(second, covers=busy.index + 1)
        busy.apply(table.put(second, 7, f"{second}"))
        idle.heartbeat(second - 1)
    world.feed(table)


def _started(world: World) -> None:
    """Feeds that start at, between and above the rows' timestamps, also by their logical part."""
    table = world.table()
    rows = world.range(table.span)
    rows.apply(intent(1, 3))
    for second in range(1, 10):
        twin = table.put(second, 2, "twin")._replace(timestamp=at(second, 1))
        rows.apply(table.put(second, 1, f"{second}"), twin)
    rows.apply(table.commit(1, 9, 3, "old intent"), close=12)
    for number, start in enumerate((at(4), at(4, 1), at(4, 2), at(4.5), at(9, 1), at(11))):
        world.feed(table, start=start, topics=f"start{number}-")


def _repeated(world: World) -> None:
    """Commands, heartbeats, snapshots and descriptors come again, later in the log."""
    table = world.table()
    rows = world.range(table.span)
    for second in range(1, 8):
        rows.apply(table.put(second, second % 3, f"{second}"), close=second)
        world.write(rows.command(table.put(second, second % 3, f"{second}"), close=second))
        world.describe(table)
        rows.snapshot(close=second, high=second)
    for index in range(11, 15):
        again = rows.command(table.put(1, 1, "long past"))
        world.write(again._replace(raft_index=type(again.raft_index)(index)))
    rows.heartbeat(9)
    world.feed(table)


def _split(world: World) -> None:
    """A range splits: it goes on in a new generation, and waits for its snapshot in between."""
    table = world.table()
    rows = world.range(table.span)
    rows.apply(table.put(1, 1, "before"), intent(1, 2), close=1)
    rows.apply(table.put(3, 2, "with the trigger"), trigger=Trigger.MERGE, close=3)
    rows.generation += 1
    rows.snapshot(close=1, chunk=0, chunks=2)
    rows.snapshot(close=1, chunk=1, chunks=2)
    rows.apply(table.put(5, 1, "after"), close=5)
    world.feed(table)


def _merged_long_ago(world: World) -> None:
    """A range was merged away a quarter of an hour ago; the source has removed what a scan of it would bring.

    An engine that reads the heir's partition first passes that time in a moment, and must not give the range
    up.
    """
    table, other = world.table(), world.table()
    low, high = table.split(5)
    left, right = world.range(low), world.range(high)
    others = [world.range(span) for span in (*other.split(5), *world.table().split(5))]
    left.apply(table.put(10, 1, "left"), close=10)
    right.apply(table.put(10, 7, "right"), close=10)
    right.apply(table.put(12, 8, "late"), close=12)
    right.end()
    left.apply(trigger=Trigger.MERGE, close=12)
    parents = left.as_parent(), right.as_parent()
    left.span, left.generation = table.span, left.generation + 1
    left.snapshot(reason=SnapshotReason.MERGE, close=12, high=12, parents=parents, gc=8)
    for second in range(15, 915, 5):
        world.wait_for(at(second + 3))
        for each in (left, *others):
            each.heartbeat(second)
    left.apply(table.put(916, 7, "merged"), close=917)
    world.feed(table, start=at(5))


_BREAKAGES: Final[dict[str, Breakage]] = {
    "unreadable bytes": _garbage,
    "a missing index": _gap,
    "no op log": _no_op_log,
    "a write below resolved": _late_write,
    "a command that breaks off": _broken_off,
    "a fallen generation": _fallen_generation,
    "a raft snapshot": _raft_snapshot,
}

CASES: Final = (
    *(Case(f"quarantine: {name}", partial(_quarantine, breakage)) for name, breakage in _BREAKAGES.items()),
    *(
        Case(f"rows changed behind {name}", partial(_changed_in_a_hole, _BREAKAGES[name]))
        for name in ("unreadable bytes", "a missing index", "no op log")
    ),
    Case("a record that names no range", _nameless_record, alone=True),
    Case("idle ranges", _idle),
    Case("starts in the middle", _started),
    Case("repeated entries", _repeated),
    Case("a new generation", _split),
    Case("merged long ago", _merged_long_ago, alone=True),
)
