"""Cases of kind ``client``, ``resume`` and ``cohort``: the consumer's state machine.

Their integer t is the HLC timestamp (0, t), which is how a plain number is decoded.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.case import Case
from tests.conformance.subscribe_formats import at
from tidegate.errors import SubscribeError
from tidegate.subscribe.client.cohort import Cohort, JointRelease
from tidegate.subscribe.client.consumer_state import ConsumerState, ReleasedBatch
from tidegate.subscribe.client.resume_token import ResumeToken, read_token
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import Update

_DIFFS = ("mz_timestamp", "mz_progressed", "mz_diff")


def check_client(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    contents = TableContents()
    calls: list[list[Any]] = []
    codes = _feed(case, lambda batch: calls.extend(_calls(contents, batch)))
    if calls != case["expect_calls"]:
        return f"expected the calls {case['expect_calls']}, got {calls}"
    wanted = case.get("expect_error")
    if wanted not in (codes or ()) and (wanted is not None or codes):
        return f"expected the error {wanted}, got {codes}"
    return None


def check_resume(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    if "input" not in case:
        token = read_token(str(ResumeToken(Frontier(at(case["frontier"])), "f")), "f")
        seen = {"expect_as_of": token.as_of.logical, "expect_snapshot": False}
        wrong = [name for name in seen if name in case and case[name] != seen[name]]
        return f"expected {case}, got {seen}" if wrong else None
    state = ConsumerState((*_DIFFS, *_column_names(case)))
    for row in case["input"]:
        state.push(row)
    frontier = None if state.frontier is None else state.frontier.logical
    wanted = case["expect_frontier"]
    return None if frontier == wanted else f"expected the frontier {wanted}, got {frontier}"


def check_cohort(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    releases: list[dict[str, Any]] = []
    codes = None
    try:
        _feed_cohort(case, releases)
    except SubscribeError as error:
        codes = _codes(error)
    wanted_error = case.get("expect_error")
    if wanted_error not in (codes or ()) and (wanted_error is not None or codes):
        return f"expected the error {wanted_error}, got {codes}"
    expected = case["expect"]
    only = case.get("expect_contains_only")
    if only:
        wanted = [{name: each[name] for name in each if only is True or name in only} for each in expected]
        return None if _has_in_order(releases, wanted) else f"expected {wanted}, got {releases}"
    seen = [{name: each[name] for name in ("frontier", *case["members"])} for each in releases]
    return None if seen == expected else f"expected {expected}, got {seen}"


def _feed_cohort(case: Case, releases: list[dict[str, Any]]) -> None:
    cohort = Cohort(case["members"])
    for member, kind, *rest in case["input"]:
        if kind == "progress":
            release = cohort.progress(member, Frontier(at(rest[0])))
            releases += [] if release is None else [_joint(release)]
        else:
            time, diff, *values = rest
            cohort.data(member, Update(at(time), diff, tuple(values)))


def _codes(error: SubscribeError) -> list[str]:
    """The codes of an error: its own, and those of the kinds above it."""
    return [kind.code for kind in type(error).__mro__ if issubclass(kind, SubscribeError)]


def _feed(case: Case, released: Any) -> list[str] | None:
    """Push all rows; returns the codes of the error that this met."""
    try:
        state = ConsumerState(case["columns"], resumed=not case.get("snapshot", True))
        for row in case["input"]:
            released(state.push(row))
        if case.get("stream_end") == "complete":
            released(state.complete())
        elif "stream_end" in case:
            state.fail()
    except SubscribeError as error:
        return _codes(error)
    return None


def _calls(contents: TableContents, batch: ReleasedBatch | None) -> list[list[Any]]:
    if batch is None:
        return []
    return [[state.call, list(map(list, state.rows))] for state in contents.states(batch)]


def _column_names(case: Case) -> list[str]:
    return [f"c{number}" for number in range(len(case["input"][0]) - len(_DIFFS))]


def _joint(release: JointRelease) -> dict[str, Any]:
    return {
        "frontier": release.frontier.logical,
        "is_snapshot": release.is_snapshot,
        **{
            member: [[each.time.logical, each.diff, *each.row] for each in updates]
            for member, updates in release.updates.items()
        },
    }


def _has_in_order(releases: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Whether there are releases with the fields that are expected, in that order; others may lie between."""
    left = iter(releases)
    return all(any(_has(seen, wanted) for seen in left) for wanted in expected)


def _has(seen: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(name in seen and seen[name] == value for name, value in wanted.items())
