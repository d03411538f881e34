"""Workloads of cases, ``{"op": "workload", "kind": ...}``, as the writes that they stand for.

A workload is some dozens of writes to the rows of one table. The seed that they are drawn from is the case's
name. The source closes timestamps between them. Now and then the input fails once, so that rows come twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final, TypeAlias

from tests.conformance.case import Case, NotClaimed

_Write: TypeAlias = dict[str, Any]

_MEMBERS: Final = frozenset({"op", "note", "kind", "partitions", "ts"})
#: Options that say where a feed starts.
_OF_STARTS: Final = frozenset({"cursor", "initial_scan", "initial_scan_only", "no_initial_scan", "ts"})
_WRITES: Final = 60
_KEYS: Final = range(1, 7)
_CLOSE: Final[_Write] = {"op": "resolve"}
_FAULT: Final[_Write] = {"op": "inject", "fault": "retryable input error once"}
_TOTAL: Final = 1_000


def expanded(case: Case) -> Iterator[_Write]:
    """Yield the writes of a case, with the writes of a workload in its place.

    Raises ``NotClaimed`` for a table whose rows it cannot make up.
    """
    for write in case.get("writes", ()):
        if write["op"] == "workload":
            if unknown := write.keys() - _MEMBERS:
                raise ValueError(f"the cases' reader does not know what {', '.join(sorted(unknown))} says")
            yield from _workload(case, str(write.get("kind", "")))
        else:
            yield write


def workload_options(case: Case) -> Mapping[str, Any]:
    """Return what a workload says of its feed, as options of the case: how many partitions its topics have.

    If nothing is written before the feed, it begins without a scan, and so does one whose markers are
    described in words. A scan would find nothing. Its answer would come last in a run, and so would all
    markers.
    """
    writes = case.get("writes", ())
    workloads = [write for write in writes if write["op"] == "workload"]
    options = {name: write[name] for write in workloads[:1] for name in ("partitions",) if name in write}
    if not writes or writes[0]["op"] != "start_feed" or not (workloads or _describes_markers(case)):
        return options
    return options | {"initial_scan": "no"}


def _describes_markers(case: Case) -> bool:
    words = case.get("expect", {}).get("resolved")
    starts = [write for write in case["writes"] if write["op"] == "start_feed"]
    said = case.get("options", {}).keys() | {name for start in starts for name in start}
    return isinstance(words, str) and not words.startswith("{") and not said & _OF_STARTS


def _workload(case: Case, kind: str) -> Iterator[_Write]:
    make = next((make for words, make in _KINDS.items() if re.fullmatch(words, kind, re.IGNORECASE)), None)
    if make is None:
        raise ValueError(f"the cases' reader knows no workload {kind!r}")
    random = Random(str(case.get("id")))
    for write in make(_Rows(case, random), random):
        yield write
        if random.random() < 0.3:
            yield _CLOSE
        if random.random() < 0.1:
            yield _FAULT


class _Rows:
    """Makes up rows of the case's table: an integer as its key, other columns of INT or STRING."""

    def __init__(self, case: Case, random: Random) -> None:
        table = case["table"]
        types = {column["name"]: str(column["type"]).upper() for column in table["columns"]}
        if len(table["pk"]) != 1 or types[table["pk"][0]] != "INT" or set(types.values()) - {"INT", "STRING"}:
            raise NotClaimed("workloads on tables with such columns are not supported yet")
        self._table = str(table["name"])
        self._key = str(table["pk"][0])
        self._others = {name: type_ for name, type_ in types.items() if name != self._key}
        self._random = random

    def put(self, key: int, value: int | None = None) -> _Write:
        row: dict[str, Any] = {self._key: key}
        for name, type_ in self._others.items():
            number = self._random.randrange(_TOTAL) if value is None else value
            row[name] = number if type_ == "INT" else str(number)
        return {"op": "upsert", "table": self._table, "rows": [row]}

    def delete(self, key: int) -> _Write:
        return {"op": "delete", "table": self._table, "keys": [[key]]}


def _random_writes(rows: _Rows, random: Random) -> Iterable[_Write]:
    there: set[int] = set()

    def write() -> _Write:
        key = random.choice(_KEYS)
        if key in there and random.random() < 0.3:
            there.discard(key)
            return rows.delete(key)
        there.add(key)
        return rows.put(key)

    for _ in range(_WRITES):
        yield {"op": "txn", "writes": [write(), write()]} if random.random() < 0.3 else write()


def _transfers(rows: _Rows, random: Random) -> Iterable[_Write]:
    for _ in range(_WRITES):
        first = random.randrange(_TOTAL)
        yield {"op": "txn", "writes": [rows.put(1, first), rows.put(2, _TOTAL - first)]}


#: By what a case says of its workload; nothing is said of any that will do.
_KINDS: Final[Mapping[str, Callable[[_Rows, Random], Iterable[_Write]]]] = {
    r"(?:random(?:\b.*)?)?": _random_writes,
    r"(?:.*\b)?transfers?(?:\b.*)?": _transfers,
}
