"""The order in which changefeed cases expect records and timestamps.

No feed has an order between keys, so records are compared key by key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.conformance.case import Case
from tests.conformance.feed_run import FeedOutput, FeedRun, Line
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.processor.reference import OutputPartition

#: What timestamps rise within: a partition, a topic, or a key of a topic.
_GROUPS: Final[Mapping[str, Callable[[OutputPartition, str], str]]] = {
    "partition": lambda place, _: f"partition {place.partition} of {place.topic}",
    "topic": lambda place, _: place.topic,
    "key": lambda place, key: f"key {key} of {place.topic}",
}


def order_of(case: Case, run: FeedRun) -> str | None:
    """Check that these records come in this order, or several such lists; keys stand for the case's records
    with them alone."""
    wanted = _listed(case["expect"]["order_of"])
    lists = wanted if all(isinstance(each, list) for each in wanted) else [wanted]
    for output in run.outputs:
        for listed in lists:
            keys = [text for text in listed if "->" not in text]
            failure = _keys_in_order(case, keys, output) if keys else _records_in_order(listed, output)
            if failure:
                return f"{failure}; wrote {output.texts}"
    return None


def monotone(case: Case, run: FeedRun) -> str | None:
    """Timestamps of this name never fall: those of markers, or those of records that are seen first."""
    per = str(case["expect"].get("per", "partition"))
    if per not in _GROUPS:
        return f"the runner knows no timestamps per {per}"
    for name in _listed(case["expect"]["monotone"]):
        failures = (_first_fall(str(name), per, output) for output in run.outputs)
        failure = next((failure for failure in failures if failure), None)
        if failure:
            return failure
    return None


def _records_in_order(wanted: list[str], output: FeedOutput) -> str | None:
    if missing := [text for text in wanted if text not in output.texts]:
        return f"missing {missing}"
    for key in {_names_of(text)[0] for text in wanted}:
        listed = [text for text in wanted if _names_of(text)[0] == key]
        left = iter([text for text in output.texts if _names_of(text)[0] == key])
        if not all(text in left for text in listed):
            return f"the records of {key} come in another order than {listed}"
    return None


def _keys_in_order(case: Case, keys: list[str], output: FeedOutput) -> str | None:
    for key in keys:
        named = [text for text in case["expect"].get("records", ()) if key in _names_of(text)]
        written = [line.text for line in output.rows if key in (line.key, f"{line.topic}: {line.key}")]
        if not named or written != named:
            return f"the records of key {key} are not {named}"
    return None


def _names_of(record: str) -> tuple[str, str]:
    """The record's key with its topic and without."""
    with_topic = record.partition("->")[0]
    return with_topic, with_topic.partition(": ")[2]


def _first_fall(name: str, per: str, output: FeedOutput) -> str | None:
    last: dict[str, Timestamp] = {}
    seen: set[str] = set()
    for place, key, text in _texts(name, output):
        found = re.search(rf'"{name}":\s*(?:{{"string":\s*)?"(?P<stamp>\d+\.\d{{10}})"', text)
        if found is None:
            return f"no timestamp {name} in {text}"
        if key and f"{place}{key}{text}" in seen:
            continue
        seen.add(f"{place}{key}{text}")
        within = "partition" if per == "key" and not key else per  # markers have no key
        group, stamp = _GROUPS[within](place, key), parse_decimal(found["stamp"])
        if stamp < last.get(group, stamp):
            return f"{name} falls to {stamp.decimal()} on {group}"
        last[group] = stamp
    return None if last else f"nothing was written with a timestamp {name}"


def _texts(name: str, output: FeedOutput) -> Iterator[tuple[OutputPartition, str, str]]:
    """Markers where their timestamp is asked for, else the values of rows with their keys."""
    for place, lines in output.written.items():
        for each in lines:
            if isinstance(each, Line) and name != "resolved":
                yield place, each.key, each.value
            elif isinstance(each, str) and name == "resolved":
                yield place, "", each


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
