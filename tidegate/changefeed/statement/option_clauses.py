"""Reads the WITH clauses of a statement into ``FeedOptions``.

Checks are in this order: every option is known and has a value that it takes; no option excludes another;
this version supports all of them. So a combination that can never work is not reported as not supported yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.options import DEFAULT_OPTIONS, FeedOptions, InitialScan, OnOversize
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.changefeed.definition.quoted_value import quoted
from tidegate.changefeed.statement.option_conflicts import find_conflict
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS, SUPPORTED_OPTIONS, Option, Takes
from tidegate.errors import StatementError

_WORD: Final = re.compile(r"\w+")


class OptionClause(NamedTuple):
    """One ``name [= value]``. ``position`` is its offset in the statement, -1 outside a statement."""

    name: str
    value: str | None = None
    position: int = -1


def read_options(clauses: Sequence[OptionClause], now_ns: int) -> FeedOptions:
    """Return the options that the clauses ask for; ``now_ns`` is the wall clock for the cursor.

    Raises ``StatementError`` at the clause's position for what is unknown, malformed, contradictory or not
    supported.
    """
    given: dict[str, str] = {}
    for clause in clauses:
        if clause.name in given:
            raise StatementError(f"option {clause.name} is given twice", clause.position)
        given[clause.name] = _checked_value(clause)
    conflict = find_conflict(given)
    if conflict:
        raise StatementError(conflict, _last_named(clauses, conflict))
    for clause in clauses:
        _refuse_unsupported(clause, given[clause.name])
        given[clause.name] = _read_text(clause, given[clause.name], now_ns)
    return _options(given)


def _last_named(clauses: Sequence[OptionClause], text: str) -> int:
    """Return the position of the last option that the text names: the one that the user added last.

    The text may name an option by its newer name, or by the option that the envelope ``diff`` stands for.
    If the text has no clause's name for this reason, clauses are found by their values.
    """
    words = set(_WORD.findall(text))
    named = [clause.position for clause in clauses if clause.name in words]
    valued = [clause.position for clause in clauses if (clause.value or "").lower() in words]
    return max(named or valued)


def _options(given: Mapping[str, str]) -> FeedOptions:
    named: dict[str, Any] = {
        option.field: option.to_field(given[option.name])
        for option in KNOWN_OPTIONS.values()
        if option.field and option.name in given
    }
    return replace(
        DEFAULT_OPTIONS,
        diff="diff" in given or given.get("envelope") == "diff",
        initial_scan=_initial_scan(given),
        max_row_bytes=_max_row_bytes(given),
        **named,
    )


def _initial_scan(given: Mapping[str, str]) -> InitialScan:
    """Return what one of three options says, or the default: a scan, unless the feed starts in the past."""
    if "initial_scan" in given:
        return InitialScan(given["initial_scan"] or InitialScan.YES.value)
    if "initial_scan_only" in given:
        return InitialScan.ONLY
    return InitialScan.NO if "no_initial_scan" in given or "cursor" in given else InitialScan.YES


def _max_row_bytes(given: Mapping[str, str]) -> int:
    """Return the limit for ``on_oversize``.

    It stands in the definition, so that every engine decides alike.
    """
    if given.get("on_oversize") != OnOversize.KEY_ONLY.value:
        return 0
    return int(given.get("max_row_bytes", DEFAULT_MAX_ROW_BYTES))


def _checked_value(clause: OptionClause) -> str:
    """Return the clause's value, in lower case where case does not matter; empty for none."""
    known = KNOWN_OPTIONS.get(clause.name)
    if known is None:
        raise StatementError(_unknown_text(clause.name), clause.position)
    value = clause.value or ""
    if known.takes is Takes.NOTHING and clause.value is not None:
        raise StatementError(f"option {clause.name} takes no value", clause.position)
    if known.takes is Takes.VALUE and not value:
        raise StatementError(f"option {clause.name} requires a value", clause.position)
    if value and known.choices:
        return _checked_choice(clause, known, value.lower())
    if value and known.duration:
        _check_duration(clause, value, positive=known.positive)
    return value


def _checked_choice(clause: OptionClause, known: Option, value: str) -> str:
    if value not in known.choices:
        choices = ", ".join(f"'{choice}'" for choice in known.choices)
        raise StatementError(f"unknown {clause.name}; valid values are {choices}", clause.position)
    return value


def _check_duration(clause: OptionClause, value: str, *, positive: bool) -> None:
    try:
        nanos = parse_duration(value)
    except ValueError as error:
        raise StatementError(f"problem parsing option {clause.name}: {error}", clause.position) from None
    if positive and nanos <= 0:
        raise StatementError(f"option {clause.name} must be a duration greater than 0", clause.position)
    if nanos < 0:
        raise StatementError(
            f"negative durations are not accepted: {clause.name}={quoted(value)}", clause.position
        )


def _read_text(clause: OptionClause, value: str, now_ns: int) -> str:
    """Return the value of an option in its standard form, if the option has one."""
    read = KNOWN_OPTIONS[clause.name].read
    if read is None:
        return value
    try:
        return read(value, now_ns)
    except StatementError as error:
        raise StatementError(str(error), clause.position) from None


def _unknown_text(name: str) -> str:
    close = get_close_matches(name[:64], KNOWN_OPTIONS, n=1)
    if close:
        return f"unknown option; did you mean {close[0]}?"
    return f"unknown option; supported options: {', '.join(SUPPORTED_OPTIONS)}"


def _refuse_unsupported(clause: OptionClause, value: str) -> None:
    option = KNOWN_OPTIONS[clause.name]
    if option.refused:
        raise StatementError(
            f"option {clause.name} is not supported yet; supported options: {', '.join(SUPPORTED_OPTIONS)}",
            clause.position,
        )
    if value in option.refused_choices:
        supported = (choice for choice in option.choices if choice not in option.refused_choices)
        raise StatementError(
            f"{clause.name}={value} is not supported yet; supported: "
            f"{', '.join(f'{clause.name}={choice}' for choice in supported)}",
            clause.position,
        )
