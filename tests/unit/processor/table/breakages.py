"""Every way in which entries of a range cannot be followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.hand_log import HandLog, HandRange, at, intent, txn
from tests.unit.processor.logs import PLAIN
from tidegate.hlc import ZERO
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import DeleteRange, OpenIntent, RangeId, Trigger

LOW, HIGH = PLAIN.split(100)
FAR_AHEAD: Final = 86_400 + 30  # seconds

Breakage = Callable[[HandLog, HandRange], None]


def garbage(log: HandLog, broken: HandRange) -> None:
    log.write_bytes(0, encode_key(broken.id), b"\xff\xff\xff")


def _no_value(log: HandLog, broken: HandRange) -> None:
    log.write_bytes(0, encode_key(broken.id), None)


def _other_key(log: HandLog, broken: HandRange) -> None:
    log.write_bytes(0, encode_key(broken.id), encode_entry(broken.command()._replace(range_id=RangeId(77))))


def _missing_entries(log: HandLog, broken: HandRange) -> None:
    broken.index += 2
    broken.apply()


def _no_op_log(log: HandLog, broken: HandRange) -> None:
    broken.index += 1
    log.write(broken.command()._replace(ops=None, write_batch=b"writes"))


def _below_resolved(log: HandLog, broken: HandRange) -> None:
    broken.apply(PLAIN.put(4, 1, "late"))


def _intent_below_resolved(log: HandLog, broken: HandRange) -> None:
    broken.apply(intent(9, 4))


def _no_value_in_op(log: HandLog, broken: HandRange) -> None:
    broken.apply(PLAIN.put(8, 1, "x")._replace(value=None))


def _outside(log: HandLog, broken: HandRange) -> None:
    broken.apply(PLAIN.put(8, 500, "the neighbour's"))


def _late_range_deletion(log: HandLog, broken: HandRange) -> None:
    broken.apply(DeleteRange(LOW.start, LOW.end, at(4)))


def _new_generation(log: HandLog, broken: HandRange) -> None:
    broken.generation += 1
    broken.apply()


def _missing_snapshot(log: HandLog, broken: HandRange) -> None:
    broken.apply(trigger=Trigger.SPLIT)
    broken.apply()


def _raft_snapshot(log: HandLog, broken: HandRange) -> None:
    broken.index += 5
    broken.snapshot(close=8, high=7)


def _version_far_ahead(log: HandLog, broken: HandRange) -> None:
    broken.index += 1
    log.write(broken.command(PLAIN.put(8, 1, "as it is"), PLAIN.put(FAR_AHEAD, 2, "far ahead")))


def _closed_far_ahead(log: HandLog, broken: HandRange) -> None:
    broken.index += 1
    log.write(broken.command(close=FAR_AHEAD))


def _heartbeat_far_ahead(log: HandLog, broken: HandRange) -> None:
    broken.heartbeat(FAR_AHEAD)


def _snapshot_far_ahead(log: HandLog, broken: HandRange) -> None:
    broken.snapshot(close=8, high=FAR_AHEAD)


def _undated_intent(log: HandLog, broken: HandRange) -> None:
    broken.snapshot(close=8, high=5, intents=[OpenIntent(txn(9), b"anchor", PLAIN.key(1), ZERO)])


BREAKAGES: Final[dict[str, tuple[Breakage, str]]] = {
    "garbage": (garbage, "not a log entry"),
    "no value": (_no_value, "has no value"),
    "another range's key": (_other_key, "names range 77"),
    "missing index": (_missing_entries, "raft indexes 12 to 13 are missing"),
    "no op log": (_no_op_log, "no op log"),
    "write below resolved": (_below_resolved, "at or below the resolved timestamp"),
    "intent below resolved": (_intent_below_resolved, "at or below the resolved timestamp"),
    "op without value": (_no_value_in_op, "without its value"),
    "key outside the range": (_outside, "outside the range"),
    "range deletion below resolved": (_late_range_deletion, "at or below the resolved timestamp"),
    "generation without snapshot": (_new_generation, "without its snapshot"),
    "trigger without snapshot": (_missing_snapshot, "a snapshot must follow"),
    "raft snapshot": (_raft_snapshot, "skipped entries"),
    "version far ahead": (_version_far_ahead, "the time of a version is"),
    "closed far ahead": (_closed_far_ahead, "what it closes is"),
    "heartbeat far ahead": (_heartbeat_far_ahead, "what it closes is"),
    "snapshot far ahead": (_snapshot_far_ahead, "the highest timestamp of a Snapshot is"),
    "snapshot with an undated intent": (_undated_intent, "has no timestamp"),
}
