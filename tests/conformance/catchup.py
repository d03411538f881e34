"""Cases of kind ``catchup``: the events of a span's stored versions."""

from __future__ import annotations

from typing import Any

from tests.conformance.case import Case
from tests.conformance.feed_events import blocks_of, event_text, expected_event, request_of, tombstones_of
from tidegate.errors import InlineValue
from tidegate.rangefeed.catchup import catch_up


def check_catchup(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    setup = case["setup"]
    for number, step in enumerate(case["steps"]):
        if step["op"] != "scan":
            return f"step {number}: unknown step {step['op']}"
        failure = _scan(setup, step)
        if failure is not None:
            return f"step {number} (scan): {failure}"
    return None


def _scan(setup: dict[str, Any], step: dict[str, Any]) -> str | None:
    blocks, stones = blocks_of(setup.get("data", [])), tombstones_of(setup.get("range_tombstones", []))
    error = None
    seen: list[dict[str, Any]] = []
    try:
        seen += map(event_text, catch_up(request_of(setup), blocks, stones))
    except InlineValue:
        error = "inline_value"
    if step.get("error") != error:
        return f"expected error {step.get('error')}, got {error}"
    expected = list(map(expected_event, step.get("expect", [])))
    if error is None and seen != expected:
        return f"expected {expected}, got {seen}"
    return None
