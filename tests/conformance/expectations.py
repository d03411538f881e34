"""The expectations that changefeed cases have of a run, and the check of them.

An expectation that nobody here knows is a failure, and so is a case without any: no case passes because
nothing was compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tests.conformance import (
    expected_invariants,
    expected_markers,
    expected_order,
    expected_presence,
    expected_records,
    expected_schemas,
)
from tests.conformance.case import Case
from tests.conformance.expected_records import OF_RECORDS
from tests.conformance.feed_run import FeedRun

_Expectation: TypeAlias = Callable[[Case, FeedRun], str | None]


class Outcome(NamedTuple):
    """The outcome of a case: the reason why it was refused, or its run."""

    refusal: str
    run: FeedRun | None


def unmet(case: Case, outcome: Outcome) -> str | None:
    """The first expectation that is not met, or ``None``."""
    expect, run = case["expect"], outcome.run
    if unknown := expect.keys() - _EXPECTATIONS.keys() - _REMARKS - OF_RECORDS - _OF_REFUSALS:
        return f"the runner cannot check what a case expects by {', '.join(sorted(unknown))}"
    if expect.get("state", "failed") not in ("failed", "succeeded", "running"):
        return f"the runner cannot check what a case expects by state {expect['state']}"
    asked = [check for name, check in _EXPECTATIONS.items() if name in expect]
    if expect.get("state") == "succeeded":
        asked.append(_succeeded)
    elif expect.get("state") == "running":  # which a feed is by itself, so there has to be more
        asked += [_goes_on] if asked else []
    elif expect.keys() & _OF_REFUSALS:
        failure = _unmet_refusal(expect, outcome)
        return failure or (None if run is None else _first(check(case, run) for check in asked))
    if run is None or run.failures:
        return f"refused: {outcome.refusal or '; '.join(run.failures if run else ())}"
    if not asked:
        return "the case expects nothing that could be compared"
    return _first(check(case, run) for check in (expected_records.no_more_than_written, *asked))


def _first(failures: Iterable[str | None]) -> str | None:
    return next((failure for failure in failures if failure is not None), None)


def _unmet_refusal(expect: Mapping[str, Any], outcome: Outcome) -> str | None:
    failed = [] if outcome.run is None else list(outcome.run.failures)
    said = "\n".join(filter(None, [outcome.refusal, *failed]))
    wanted = str(expect.get("error", expect.get("error_regex", "")))
    if not said:
        return f"expected {wanted or 'a failed feed'!r}, and nothing was refused"
    if expect.get("state") == "failed" and outcome.run is not None and not failed:
        return f"expected a failed feed, and none failed: {said}"
    if "error" in expect and expect["error"] not in said:
        return f"expected {wanted!r}, got {said!r}"
    if "error_regex" in expect and re.search(expect["error_regex"], said) is None:
        return f"expected {wanted!r}, got {said!r}"
    return None


def _each_feed(case: Case, run: FeedRun) -> str | None:
    wanted = int(case["options"].get("feeds", 1))
    return None if len(run.outputs) == wanted > 1 else f"{len(run.outputs)} feeds ran, expected {wanted}"


def _succeeded(_: Case, run: FeedRun) -> str | None:
    return None if run.succeeded else "expected a feed that succeeds, and it goes on"


def _goes_on(_: Case, run: FeedRun) -> str | None:
    return "expected a feed that goes on, and it has succeeded" if run.succeeded else None


def _metric(case: Case, run: FeedRun) -> str | None:
    """Retries and failures as the run had them; a worker's metrics are tested where the worker is."""
    found = {"error_retries": run.retries, "failures": len(run.failures)}
    for name, wanted in case["expect"]["metric"].items():
        if name not in found:
            return f"the runner knows no metric {name}"
        text = str(wanted)
        met = found[name] >= int(text[2:]) if text.startswith(">=") else found[name] == int(text)
        if not met:
            return f"expected {name} {wanted}, got {found[name]}"
    return None


#: Members that say that a statement is refused, or that the feed fails.
_OF_REFUSALS: Final = frozenset({"error", "error_regex", "state"})
#: Members that say something to people, or to the check of another member.
_REMARKS: Final = frozenset({"text_form", "note", "notes", "comment", "provenance", "example", "per"})
_EXPECTATIONS: Final[Mapping[str, _Expectation]] = {
    "records": expected_records.records,
    "exactly_for": expected_records.exactly_for,
    "records_regex": expected_records.records_regex,
    "absent": expected_presence.absent,
    "absent_keys": expected_presence.absent_keys,
    "count_distinct_keys": expected_presence.count_distinct_keys,
    "order_of": expected_order.order_of,
    "monotone": expected_order.monotone,
    "topics": expected_presence.topics,
    "resolved_topics": expected_presence.resolved_topics,
    "subjects": expected_presence.subjects,
    "namespace": expected_schemas.namespace,
    "headers": expected_records.headers,
    "invariant": expected_invariants.invariant,
    "values": expected_records.values,
    "lines": expected_records.lines,
    "keys": expected_presence.keys,
    "each_feed": _each_feed,
    "metric": _metric,
    "resolved": expected_markers.resolved,
    "resolved_shape": expected_markers.resolved_shape,
    "resolved_regex": expected_markers.resolved_regex,
    "avro_json": expected_schemas.avro_json,
    "field_type": expected_schemas.field_type,
    "value_row_schema": expected_schemas.value_row_schema,
    "value_schema": expected_schemas.value_schema,
    "key_schema": expected_schemas.key_schema,
}
