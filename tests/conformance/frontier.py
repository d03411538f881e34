"""Cases of kind ``frontier``: a span frontier over text keys."""

from __future__ import annotations

from typing import Any

from tidegate.hlc import Timestamp
from tidegate.spans import Span, SpanFrontier

Step = dict[str, Any]
Case = dict[str, Any]


def check_frontier(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    setup = case["setup"]
    try:
        frontier = SpanFrontier((_span(keys) for keys in setup["spans"]), Timestamp(*setup["start"]))
        for start, end, *at in setup["spans"]:
            if at:  # a span may have a time of its own
                frontier.forward(_span([start, end]), Timestamp(*at[0]))
    except ValueError as error:
        return None if _error_class(error) == setup.get("error") else f"setup: {error}"
    for number, step in enumerate(case["steps"]):
        failure = _step(frontier, step)
        if failure is not None:
            return f"step {number} ({step['op']}): {failure}"
    return None


def _step(frontier: SpanFrontier, step: Step) -> str | None:
    seen: dict[str, Any] = {}
    try:
        seen = _run(frontier, step)
    except ValueError as error:
        seen["error"] = _error_class(error)
    seen.setdefault("frontier", list(frontier.minimum))
    seen.setdefault("entries", [_entry(*entry) for entry in frontier.entries()])
    for name in ("error", "advanced", "entries", "frontier"):
        if step.get(name) != seen.get(name) and (name in step or name == "error"):
            return f"expected {name} {step.get(name)}, got {seen.get(name)}"
    if step["op"] == "peek" and step["span"] != seen["peeked"]:
        return f"expected span {step['span']}, got {seen['peeked']}"
    return None


def _run(frontier: SpanFrontier, step: Step) -> dict[str, Any]:
    match step["op"]:
        case "forward":
            return {"advanced": frontier.forward(_span(step["span"]), Timestamp(*step["ts"]))}
        case "add_spans":
            for keys in step["spans"] if "spans" in step else [step["span"]]:
                frontier.add(_span(keys), Timestamp(*step["ts"]))
        case "span_entries":
            window = _span(step["span"])
            window.validate()
            parts = ((entry.intersect(window), at) for entry, at in frontier.entries())
            return {"entries": [_entry(part, at) for part, at in parts if part is not None]}
        case "peek":
            entry = frontier.lowest_entry()
            return {"peeked": None if entry is None else _entry(*entry)[:2]}
        case "entries":
            pass
        case other:
            return {"error": f"unknown step {other}"}
    return {}


def _error_class(error: ValueError) -> str:
    return "empty_span" if "empty" in str(error) else "inverted_span"


def _span(keys: list[str]) -> Span:
    return Span(keys[0].encode(), keys[1].encode())


def _entry(span: Span, timestamp: Timestamp) -> list[Any]:
    return [span.start.decode(), span.end.decode(), list(timestamp)]
