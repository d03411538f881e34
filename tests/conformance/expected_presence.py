"""The expectations of a whole run's records: none of these, so many keys, on these topics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.conformance.case import Case
from tests.conformance.feed_run import FeedRun, Line


def absent(case: Case, run: FeedRun) -> str | None:
    """None of these records; of a text that is no whole record, none that has it anywhere."""
    for text in _listed(case["expect"]["absent"]):
        for line in _rows(run):
            if line.text == text or ("->" not in text and text in line.text):
                return f"expected no record {text}, wrote {line.text}"
    return None


def absent_keys(case: Case, run: FeedRun) -> str | None:
    """Check that no record has one of these keys, on the topic that stands before it or on any."""
    for key in _listed(case["expect"]["absent_keys"]):
        text = _key_text(key)
        line = next((line for line in _rows(run) if text in (line.key, f"{line.topic}: {line.key}")), None)
        if line is not None:
            return f"expected no record with the key {text}, wrote {line.text}"
    return None


def keys(case: Case, run: FeedRun) -> str | None:
    """These keys and no others were written, whatever was written under them."""
    wanted = {_key_text(key) for key in _listed(case["expect"]["keys"])}
    for output in run.outputs:
        found = {line.key for line in output.rows}
        if found != wanted:
            return f"expected the keys {sorted(wanted)}, wrote {sorted(found)}"
    return None


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)


def count_distinct_keys(case: Case, run: FeedRun) -> str | None:
    """Check for so many keys in every feed, each on its topic; or for so many on each of these topics."""
    wanted = case["expect"]["count_distinct_keys"]
    for output in run.outputs:
        keys = {(line.topic, line.key) for line in output.rows}
        by_topic = Counter(topic for topic, _ in keys)
        found = {topic: by_topic[topic] for topic in wanted} if isinstance(wanted, dict) else len(keys)
        if found != wanted:
            return f"expected {wanted} keys, wrote {found}"
    return None


def topics(case: Case, run: FeedRun) -> str | None:
    """The topics that were written to."""
    places = {place.topic for output in run.outputs for place, lines in output.written.items() if lines}
    return _difference("topics", case["expect"]["topics"], places)


def resolved_topics(case: Case, run: FeedRun) -> str | None:
    """The topics that have a marker on each of their partitions; no other has any."""
    for output in run.outputs:
        with_markers = {place.topic for place, markers in output.markers.items() if markers}
        failure = _difference("topics with markers", case["expect"]["resolved_topics"], with_markers)
        if failure:
            return failure
        silent = [place for place, markers in output.markers.items() if not markers]
        if any(place.topic in with_markers for place in silent):
            return f"no marker on partition {silent[0].partition} of {silent[0].topic}"
    return None


def subjects(case: Case, run: FeedRun) -> str | None:
    """The subjects under which schemas were registered."""
    return _difference("subjects", case["expect"]["subjects"], run.subjects)


def _difference(what: str, wanted: Any, found: Iterable[str]) -> str | None:
    expected = sorted(_listed(wanted))
    return None if expected == sorted(found) else f"expected the {what} {expected}, got {sorted(found)}"


def _rows(run: FeedRun) -> list[Line]:
    return [line for output in run.outputs for line in output.rows]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
