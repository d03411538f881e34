"""The checks of range feed cases can fail: each expectation that is altered is noticed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case import Case, read_cases
from tests.conformance.registry import CHECKS
from tests.conformance.runner import Outcome, Result, run_case

VECTORS = Path(__file__).parent / "vectors" / "rangefeed.jsonl"
CASES = [case for case in read_cases(VECTORS) if case["kind"] in ("processor", "catchup")]
#: An event that no case expects where it is put.
STRANGER = {"type": "value", "key": "stranger", "ts": [1, 0], "value": "x", "prev": None}


def altered(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The step with one expectation changed at a time."""
    for name in ("registrations", "tracked_txns", "used", "count"):
        if name in step and step["op"].startswith("expect"):
            yield {**step, name: step[name] + 1}
    for name in ("events", "expect", "expect_ops", "expect_resolve"):
        if name in step:
            yield {**step, name: [*step[name], STRANGER]}
            yield from (
                [{**step, name: step[name][:-1]}] if step[name] and step["op"] != "expect_first" else []
            )
    if "event" in step and step["op"] == "expect_last":
        yield {**step, "event": STRANGER}
    if "ok" in step:
        yield {**step, "ok": not step["ok"]}
    if step["op"] == "expect_error":
        yield {**step, "error": "REASON_NOT_THIS_ONE"}
        yield {**step, "error": None}
    if step["op"] == "expect_filter":
        yield {**step, "need_val": [[keys, not needed] for keys, needed in step["need_val"]]}
        yield {**step, "need_prev": [[keys, not needed] for keys, needed in step["need_prev"]]}
    if "resolved" in step and step["op"] == "expect_state":
        yield {**step, "resolved": [77, 0]}


def variants() -> Iterator[tuple[str, Case]]:
    for case in CASES:
        for number, step in enumerate(case["steps"]):
            for variant in altered(step):
                changed = copy.deepcopy(case)
                changed["steps"][number] = variant
                yield f"{case['id']}-{number}-{step['op']}", changed


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in variants()])
def test_an_altered_expectation_fails(case: Case) -> None:
    assert run_case(case).outcome is Outcome.FAILED


@pytest.mark.parametrize("kind", ["processor", "catchup"])
def test_a_step_that_the_runner_does_not_know_fails(kind: str) -> None:
    setup = {"span": ["a", "z"], "init": True}
    result = run_case({"id": "x", "kind": kind, "setup": setup, "steps": [{"op": "unheard_of"}]})
    assert result.outcome is Outcome.FAILED
    assert "unknown step" in result.detail


def test_every_kind_of_range_feed_case_is_claimed() -> None:
    assert {case["kind"] for case in read_cases(VECTORS)} <= CHECKS.keys()


def processor_case(*steps: dict[str, Any], **setup: Any) -> Case:
    return {
        "id": "own",
        "kind": "processor",
        "setup": {"span": ["a", "z"], "init": True, "event_capacity": 16, **setup},
        "steps": list(steps),
    }


def register(name: str, **fields: Any) -> dict[str, Any]:
    return {"op": "register", "reg": name, "span": ["a", "m"], "start": [1, 0], "ok": True, **fields}


def write(wall: int) -> dict[str, Any]:
    return {"type": "write_value", "key": "k", "ts": [wall, 0], "value": "val 00"}


#: Cases of formats that the public vectors do not show, by the rules of the source.
OWN_CASES = {
    "overflow of a feed that nobody reads": processor_case(
        register("r1", start=[0, 0]),
        *({"op": "publish_raw", "reg": "r1", "event": {**STRANGER, "ts": [i, 0]}} for i in range(1, 20)),
        {"op": "run_output", "reg": "r1"},
        {"op": "expect_error", "reg": "r1", "error": "REASON_SLOW_CONSUMER"},
        {"op": "expect_count", "reg": "r1", "count": 16, "ignore_checkpoints": True},
    ),
    "a slow consumer loses its feed and no other": processor_case(
        register("r1"),
        register("r2", span=["a", "z"]),
        {"op": "clear", "regs": ["r1", "r2"]},
        {"op": "block", "reg": "r1"},
        {"op": "ops_many", "count": 17, "op_template": write(2)},
        {"op": "expect_count", "reg": "r2", "count": 17, "values": 17},
        {"op": "ops", "ops": [write(30)]},
        {"op": "expect_state", "registrations": 2},
        {"op": "expect_count", "reg": "r1", "count": 0},
        {"op": "unblock", "reg": "r1"},
        {"op": "expect_count", "reg": "r1", "count": 17},
        {"op": "expect_error", "reg": "r1", "error": "REASON_SLOW_CONSUMER"},
        {"op": "expect_state", "registrations": 1},
    ),
    "pushing": processor_case(
        {"op": "ops", "ops": [{"type": "write_intent", "txn": "t1", "ts": [10, 0]}]},
        {"op": "ops", "ops": [{"type": "write_intent", "txn": "t2", "ts": [20, 0]}]},
        {"op": "closed", "ts": [40, 0]},
        {"op": "push", "expect_pushed": [["t2", [20, 0]], ["t1", [10, 0]]], "resolved": [9, 0]},
        {
            "op": "push",
            "expect_pushed": [["t1", [10, 0]], ["t2", [20, 0]]],
            "returns": [["t1", "PENDING", [30, 0]], ["t2", "ABORTED", [20, 0]]],
            "resolved": [29, 0],
        },
        {"op": "tick", "push_expected": True},
    ),
    "pushing is off": processor_case(
        {"op": "ops", "ops": [{"type": "write_intent", "txn": "t1", "ts": [10, 0]}]},
        {"op": "tick", "push_expected": False},
        push_enabled=False,
    ),
    "a start below the GC threshold": processor_case(
        {"op": "set_gc_threshold", "ts": [5, 0]},
        register("r1", start=[4, 0], ok=False, error="BatchTimestampBeforeGCError"),
        register("r2", start=[6, 0]),
    ),
    "a start below the GC threshold that there was at first": processor_case(
        register("r1", start=[4, 0], ok=False), register("r2", start=[6, 0]), gc_threshold=[5, 0]
    ),
    "a scan finds intents in the order of keys": processor_case(
        {
            "op": "init_scan_emits",
            "data": [
                {"key": key, "ts": [number, 0], "intent": f"t{number}", "txn_key": "k"}
                for number, key in enumerate("zfd", 1)
            ],
            "expect": [
                *(
                    {"type": "write_intent", "txn": f"t{number}", "ts": [number, 0], "txn_key": "k"}
                    for number in (3, 2)
                ),
                {"type": "init"},
            ],
        }
    ),
    "a file comes whole, and a range deletion may say its keys": processor_case(
        register("r1", span=["c", "f"], start=[0, 0]),
        {"op": "clear"},
        {"op": "publish", "span": ["a", "z"], "event": {"type": "sst", "span": ["a", "z"], "ts": [5, 0]}},
        {"op": "expect", "reg": "r1", "events": [{"type": "sst", "span": ["a", "z"], "ts": [5, 0]}]},
        {
            "op": "ops",
            "ops": [{"type": "delete_range", "start_key": "b", "end_key": "d", "ts": [6, 0]}],
        },
        {
            "op": "expect",
            "reg": "r1",
            "events": [{"type": "delete_range", "span": ["c", "d"], "ts": [6, 0]}],
        },
        {"op": "ops", "ops": None},
        {"op": "expect_metric", "name": "kv.rangefeed.budget_allocation_failed", "value": 0},
    ),
    "a span is disconnected": processor_case(
        register("r1", span=["a", "c"]),
        register("r2", span=["c", "e"]),
        {"op": "disconnect_span", "span": ["b", "c"], "error": "error 1"},
        {"op": "expect_error", "reg": "r1", "error": "error 1"},
        {"op": "expect_state", "registrations": 1},
        {"op": "disconnect_span", "span": ["a", "z"]},
        {"op": "expect_error", "reg": "r2", "error": None},
    ),
    "an op below the resolved timestamp": processor_case(
        {"op": "closed", "ts": [9, 0]}, {"op": "ops", "ops": [write(9)], "error": "op_below_resolved"}
    ),
}


@pytest.mark.parametrize("name", OWN_CASES)
def test_steps_that_no_public_case_has(name: str) -> None:
    result = run_case(OWN_CASES[name])
    assert (result.outcome, result.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("any", Outcome.PASSED),
        ("context canceled", Outcome.PASSED),
        ("cancelled", Outcome.PASSED),
        ("stream error", Outcome.FAILED),
        (None, Outcome.FAILED),
    ],
)
def test_a_cancelled_feed_is_told_from_one_that_failed(error: str | None, outcome: Outcome) -> None:
    case = {
        "id": "cancelled",
        "kind": "processor",
        "setup": {"span": ["a", "z"], "init": True},
        "steps": [
            {"op": "register", "reg": "r1", "span": ["a", "b"], "start": [0, 0], "ok": True},
            {"op": "cancel", "reg": "r1", "error": "any"},
            {"op": "expect_error", "reg": "r1", "error": error},
        ],
    }
    assert run_case(case).outcome is outcome


def test_a_metric_that_there_is_not_is_told() -> None:
    result = run_case(processor_case({"op": "expect_metric", "name": "feeds_in_flight", "value": 0}))
    assert (result.outcome, result.detail) == (
        Outcome.FAILED,
        "step 0 (expect_metric): no metric feeds_in_flight",
    )


def test_spans_of_a_frontier_may_be_several_and_have_their_own_times() -> None:
    case: Case = {
        "id": "frontier",
        "kind": "frontier",
        "setup": {"spans": [["a", "b", [3, 0]], ["c", "d", [5, 0]]], "start": [0, 0]},
        "steps": [
            {"op": "entries", "frontier": [3, 0]},
            {"op": "add_spans", "spans": [["e", "f"], ["g", "h"]], "ts": [2, 0], "frontier": [2, 0]},
            {"op": "span_entries", "span": ["d", "f"], "entries": [["e", "f", [2, 0]]]},
            {"op": "span_entries", "span": ["f", "d"], "error": "inverted_span"},
        ],
    }
    assert run_case(case) == Result("frontier", Outcome.PASSED)
    case["steps"][0]["frontier"] = [0, 0]
    assert run_case(case).outcome is Outcome.FAILED
