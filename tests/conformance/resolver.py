"""Cases of kind ``resolver``: one resolver, or its queue alone (``level`` = ``queue``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate.errors import ForbiddenOp
from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    CommitIntent,
    DeleteRange,
    Op,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.intent_queue import IntentQueue
from tidegate.ranges.resolver import Resolver

Step = dict[str, Any]
Case = dict[str, Any]


def check_resolver(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    if case.get("level") == "queue":
        return _check_queue(case)
    resolver = Resolver()
    for number, step in enumerate(case["steps"]):
        moved, error = _run(resolver, step)
        failure = _compare(step, error, _state(resolver, step, moved))
        if failure is not None:
            return f"step {number} ({step['op']}): {failure}"
        if error == "negative_refcount":
            return None  # the state is undefined afterwards
    return None


def _run(resolver: Resolver, step: Step) -> tuple[bool, str | None]:
    try:
        if step["op"] == "init":
            return resolver.initialise(), None
        if step["op"] == "closed":
            return resolver.forward_closed(ClosedTimestamp(_at(step))), None
        return resolver.apply(_OPS[step["op"]](step)), None
    except ForbiddenOp:
        return False, "negative_refcount" if step["op"] == "init" else "op_below_resolved"


def _compare(step: Step, error: str | None, state: dict[str, Any]) -> str | None:
    if step.get("error") != error:
        return f"expected error {step.get('error')}, got {error}"
    if error == "negative_refcount":
        return None
    for name, value in state.items():
        if name in step and step[name] != value and not (error and name == "moved"):
            return f"expected {name} {step[name]}, got {value}"
    return None


def _state(resolver: Resolver, step: Step, moved: bool) -> dict[str, Any]:
    queue = resolver.queue
    return {
        "moved": moved,
        "resolved": list(resolver.resolved),
        "tracked": len(queue),
        "refs": _refs(queue, step.get("refs", {})),
    }


def _refs(queue: IntentQueue, names: dict[str, int]) -> dict[str, int]:
    counts = {name: queue.get(_txn(name)) for name in names}
    return {name: 0 if txn is None else txn.refs for name, txn in counts.items()}


def _at(step: Step) -> Timestamp:
    return Timestamp(*step["ts"]) if step.get("ts") is not None else ZERO


def _txn(name: str) -> TxnId:
    return TxnId(name.encode().ljust(16, b"\x00"))


_OPS: Final[dict[str, Callable[[Step], Op]]] = {
    "write_value": lambda step: WriteValue(b"k", _at(step), b""),
    "delete_range": lambda step: DeleteRange(b"a", b"b", _at(step)),
    "write_intent": lambda step: WriteIntent(_txn(step["txn"]), b"anchor", _at(step), _at(step)),
    "update_intent": lambda step: UpdateIntent(_txn(step["txn"]), _at(step)),
    "commit_intent": lambda step: CommitIntent(_txn(step["txn"]), b"k", _at(step), b""),
    "abort_intent": lambda step: AbortIntent(_txn(step["txn"])),
    "abort_txn": lambda step: AbortTxn(_txn(step["txn"])),
}


# ---- the queue alone ----


def _check_queue(case: Case) -> str | None:
    queue = IntentQueue(allow_negative=True)
    for number, step in enumerate(case["steps"]):
        advanced, error = _run_queue(queue, step)
        failure = _compare(step, error, _queue_state(queue, step, advanced))
        if failure is not None:
            return f"step {number} ({step['op']}): {failure}"
    return None


def _run_queue(queue: IntentQueue, step: Step) -> tuple[bool | None, str | None]:
    match step["op"]:
        case "q_inc":
            return queue.increment(_txn(step["txn"]), b"anchor", _at(step), _at(step)), None
        case "q_dec":
            timestamp = None if step.get("ts") is None else _at(step)
            return queue.decrement(_txn(step["txn"]), timestamp), None
        case "q_update":
            return queue.forward(_txn(step["txn"]), _at(step)), None
        case "q_del":
            return queue.remove(_txn(step["txn"])), None
        case "q_allow_negative":
            queue.allow_negative = all(value is not False for value in step.values())
            return None, None
        case "q_assert_positive":
            return None, "negative_refcount" if queue.lacking_intents() else None
        case "q_expect":
            return None, None
        case other:
            return None, f"unknown step {other}"


def _queue_state(queue: IntentQueue, step: Step, advanced: bool | None) -> dict[str, Any]:
    oldest = queue.oldest()
    named = {name: queue.get(_txn(name)) for name in step.get("ts_of", {})}
    state: dict[str, Any] = {
        "len": len(queue),
        "oldest": None if oldest is None else oldest.txn_id.rstrip(b"\x00").decode(),
        "oldest_ts": None if oldest is None else list(oldest.timestamp),
        "refs": _refs(queue, step.get("refs", {})),
        "ts_of": {name: None if txn is None else list(txn.timestamp) for name, txn in named.items()},
        "before": [[at, len(queue.below(Timestamp(*at)))] for at, _ in step.get("before", [])],
    }
    if advanced is not None:
        state["advanced"] = advanced
    return state
