"""Invariants that changefeed cases expect of all rows and markers of a run, against their own history."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tests.conformance.case import Case
from tests.conformance.feed_run import FeedOutput, FeedRun, Line
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.processor.reference import OutputPartition

#: A row as JSON has it; ``None`` for no row.
_Row: TypeAlias = dict[str, Any] | None


def invariant(case: Case, run: FeedRun) -> str | None:
    """The invariant, for each feed. One that nobody here knows is a failure."""
    wanted = str(case["expect"]["invariant"])
    in_words = (check for pattern, check in _IN_WORDS.items() if re.fullmatch(pattern, wanted, re.IGNORECASE))
    check = _INVARIANTS.get(wanted) or next(in_words, None)
    if check is None:
        return f"the runner cannot check the invariant {wanted!r}"
    if len(run.tables) != 1:
        return f"the runner checks invariants of one table, and the case has {len(run.tables)}"
    truth = _Truth(run)
    for output in run.outputs:
        if not output.rows and check not in _OF_MARKERS_ALONE:
            return "no row was written that could break the invariant"
        if failure := check(truth, output):
            return failure
    return None


class _Truth:
    """The rows of the case's table at each time, from its history."""

    def __init__(self, run: FeedRun) -> None:
        names = [column.name for column in run.tables[0].columns]
        self._versions: dict[str, list[tuple[Timestamp, _Row]]] = {}
        for timestamp, version in run.history.visible():
            row = None if version.values is None else dict(zip(names, version.values, strict=True))
            self._versions.setdefault(json.dumps(list(version.key)), []).append((timestamp, row))

    def row(self, key: str, at: Timestamp) -> _Row:
        """The row with a key as of a timestamp."""
        versions = [row for timestamp, row in self._versions.get(key, ()) if timestamp <= at]
        return versions[-1] if versions else None

    def table(self, at: Timestamp) -> Mapping[str, _Row]:
        """All rows as of a timestamp."""
        found = {key: self.row(key, at) for key in self._versions}
        return {key: row for key, row in found.items() if row is not None}


class _Change(NamedTuple):
    """A row that was written: its key, its commit timestamp, and its value."""

    key: str
    updated: Timestamp
    value: Mapping[str, Any]


def _change(line: Line) -> _Change:
    value = json.loads(line.value)
    return _Change(json.dumps(json.loads(line.key)), parse_decimal(value["updated"]), value)


def _marker(text: str) -> Timestamp:
    return parse_decimal(json.loads(text)["resolved"])


def _no_new_row_behind_its_marker(_: _Truth, output: FeedOutput) -> str | None:
    for place, written in output.written.items():
        seen: set[tuple[str, Timestamp]] = set()
        marker: Timestamp | None = None
        for each in written:
            if isinstance(each, str):
                marker = max(_marker(each), marker or _marker(each))
                continue
            change = _change(each)
            if (change.key, change.updated) not in seen and marker is not None and change.updated <= marker:
                return f"the row {each.text} comes after the marker {marker.decimal()} on {_named(place)}"
            seen.add((change.key, change.updated))
    return _without_markers(output)


def _state_at_each_marker(truth: _Truth, output: FeedOutput) -> str | None:
    """Check the state at each marker that stands on all partitions."""
    for resolved in sorted({_marker(text) for texts in output.markers.values() for text in texts}):
        state: dict[str, _Row] = {}
        prefixes = [_up_to(written, resolved) for written in output.written.values()]
        if any(prefix is None for prefix in prefixes):
            continue
        for change in (change for prefix in prefixes for change in prefix or ()):
            if change.updated <= resolved:
                state[change.key] = change.value["after"]
        found = {key: row for key, row in state.items() if row is not None}
        if found != truth.table(resolved):
            return f"at {resolved.decimal()} the rows give {found}, and the table had {truth.table(resolved)}"
    return _without_markers(output)


def _up_to(written: Sequence[Line | str], resolved: Timestamp) -> list[_Change] | None:
    """The rows of a partition before its first marker at or above a timestamp; ``None`` without one."""
    changes = []
    for each in written:
        if isinstance(each, Line):
            changes.append(_change(each))
        elif _marker(each) >= resolved:
            return changes
    return None


def _rows_before_and_after(truth: _Truth, output: FeedOutput) -> str | None:
    for line in output.rows:
        key, updated, value = _change(line)
        for name, at in (("before", updated.prev()), ("after", updated)):
            if value[name] != truth.row(key, at):
                return f"{name} of {line.text} was {truth.row(key, at)}"
    return None


def _markers_never_fall(_: _Truth, output: FeedOutput) -> str | None:
    for place, markers in output.markers.items():
        stamps = [_marker(text) for text in markers]
        if stamps != sorted(stamps):
            return f"markers fall on {_named(place)}: {list(markers)}"
    return _without_markers(output, least=1)


def _no_marker_is_zero(_: _Truth, output: FeedOutput) -> str | None:
    zero = [text for markers in output.markers.values() for text in markers if _marker(text) <= ZERO]
    return f"the marker {zero[0]} is zero" if zero else _without_markers(output, least=1)


def _markers_stand_everywhere(_: _Truth, output: FeedOutput) -> str | None:
    """Each marker stands on each partition of each topic."""
    everywhere = {text for texts in output.markers.values() for text in texts}
    for place, texts in output.markers.items():
        if lacking := everywhere - set(texts):
            return f"{_named(place)} lacks the marker {min(lacking)}"
    return _without_markers(output, least=1)


def _first_seen_rows_rise(_: _Truth, output: FeedOutput) -> str | None:
    last: dict[str, Timestamp] = {}
    seen: set[tuple[str, Timestamp]] = set()
    for change in map(_change, output.rows):
        if (change.key, change.updated) not in seen and change.updated < last.get(change.key, ZERO):
            return f"updated falls to {change.updated.decimal()} for the key {change.key}"
        seen.add((change.key, change.updated))
        last[change.key] = max(change.updated, last.get(change.key, ZERO))
    return None


def _each_key_has_one_partition(_: _Truth, output: FeedOutput) -> str | None:
    found: dict[str, int] = {}
    for line in output.rows:
        if found.setdefault(line.key, line.partition) != line.partition:
            return f"the key {line.key} is on the partitions {found[line.key]} and {line.partition}"
    return None


def _without_markers(output: FeedOutput, least: int = 2) -> str | None:
    silent = next((place for place, markers in output.markers.items() if len(markers) < least), None)
    return None if silent is None else f"fewer than {least} markers on {_named(silent)}, so nothing is shown"


def _named(place: OutputPartition) -> str:
    return f"partition {place.partition} of {place.topic}"


_INVARIANTS: Final[Mapping[str, Callable[[_Truth, FeedOutput], str | None]]] = {
    "for every first-seen (key,updated) on p: updated > every resolved already seen on p": (
        _no_new_row_behind_its_marker
    ),
    "state(min resolved over partitions) == table at that timestamp": _state_at_each_marker,
    "before == row at updated.prev(); after == row at updated": _rows_before_and_after,
}
#: Those of a feed that may have no rows.
_OF_MARKERS_ALONE: Final = (_markers_never_fall, _no_marker_is_zero, _markers_stand_everywhere)
_RISES: Final = (
    r"(?:never (?:falls|decreases|regresses|goes back)|monotonic\w*|non-?decreasing|ascend\w*|increas\w*)"
)
_ZERO: Final = r"(?:zero|0(?:\.0+)?)"
_EACH: Final = r"(?:every|each|all) partitions?"
#: Invariants that each case tells in its own words.
_IN_WORDS: Final[Mapping[str, Callable[[_Truth, FeedOutput], str | None]]] = {
    rf"(?:(?:every|each|the) )?resolved\b.*\b{_RISES}\b.*": _markers_never_fall,
    rf"no\b.*\bresolved\b.*\b{_ZERO}\b.*": _no_marker_is_zero,
    rf".*\bresolved\b.*\b(?:never|not)\b.*\b{_ZERO}\b.*": _no_marker_is_zero,
    rf"{_EACH}\b.*\b(?:gets?|has|have|receives?)\b.*\bresolved\b.*": _markers_stand_everywhere,
    rf"(?:every|each) resolved\b.*\b(?:on|to|in) {_EACH}\b.*": _markers_stand_everywhere,
    rf".*\bkey\b.*\bupdated\b.*\b{_RISES}\b.*|.*\bupdated\b.*\b{_RISES}\b.*\bkey\b.*": _first_seen_rows_rise,
    r".*\bkey\b.*\b(?:same|one) partition\b.*": _each_key_has_one_partition,
}
