"""A case, and the check of one kind of case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

#: One line of a vectors file.
Case: TypeAlias = dict[str, Any]
#: What went wrong in the case, or ``None``.
Check: TypeAlias = Callable[[Case], str | None]


class MinusZero(int):
    """JSON's ``-0``: zero everywhere, but as a number of a document it keeps its sign."""


class Malformed(NamedTuple):
    """A line that is no case: where it stands, and what is wrong with it."""

    place: str
    reason: str


def read_lines(path: Path) -> Iterator[Case | Malformed]:
    """The cases of a file, one JSON object a line; fractions are ``Decimal``, so that their text survives."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        yield Malformed(str(path), f"cannot be read: {error}")
        return
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _read_line(f"{path}:{number}", line)


def read_cases(path: Path) -> list[Case]:
    """All of a file that has cases only. Raises ``ValueError``, naming the line, for any other."""
    cases = []
    for line in read_lines(path):
        if isinstance(line, Malformed):
            raise ValueError(f"{line.place}: {line.reason}")  # noqa: TRY004 - it is the file's content
        cases.append(line)
    return cases


def _read_line(place: str, line: str) -> Case | Malformed:
    try:
        case = json.loads(line, parse_float=Decimal, parse_int=_whole_number)
    except (ValueError, RecursionError) as error:
        return Malformed(place, f"not JSON: {error}")
    return case if isinstance(case, dict) else Malformed(place, "not a JSON object")


def _whole_number(text: str) -> int:
    return MinusZero() if text == "-0" else int(text)


class NotClaimed(Exception):
    """Raised by a check for a case that uses an option which this version refuses as not supported yet."""


def kind_of(case: Case) -> str:
    """The case's kind, from its field of that name.

    Changefeed cases have no such field: they are of kind ``changefeed``, and claimed group by group, which
    their id names: ``cf-enc-02`` is of ``changefeed.enc``. Raises ``ValueError`` for a case with neither.
    """
    if "kind" in case:
        return str(case["kind"])
    _, _, rest = str(case.get("id", "")).partition("-")
    group = rest.partition("-")[0]
    if not group:
        raise ValueError("the case has no kind, and no id of the form cf-<group>-<number> that would tell it")
    return f"changefeed.{group}"
