"""The markers that changefeed cases expect: their text, and how they stand on the partitions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.conformance.avro_text import avro_value, canonical
from tests.conformance.case import Case
from tests.conformance.feed_run import FeedRun
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.encoding.encoder import compile_marker
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp, parse_decimal

_HLC: Final = re.compile(r"\d+\.\d{10}")
_PER_EMISSION: Final = re.compile(r"(?P<count>\d+) records? per emission, one per partition, key null")
_AT_LEAST_ONE: Final = re.compile(
    r"at least one(?P<above>,? (?:strictly )?(?:greater than|above) .* timestamp)?"
)

_AT_MOST: Final = re.compile(r"(?:at most )?(?P<most>\d+\.\d{10})(?P<words> at most)?\b.*")
_REACHED: Final = re.compile(
    r"(?:(?:at least|advances to|goes (?:on )?to|moves to|reaches) )?(?P<least>\d+(?:\.\d{10})?)"
    r"(?: at least)?(?:,? (?:after|when|once) .*)?"
)
_BELOW: Final = re.compile(r"stays below (?P<bound>[\d.]+)(?:,? (?:until|while|as long as) .*)?")


def resolved(case: Case, run: FeedRun) -> str | None:
    """The marker's text, or how many there are and where."""
    wanted = str(case["expect"]["resolved"])
    if wanted.startswith("{"):
        return _marker_text(wanted, run) or _marker_of(case, run, wanted)
    if match := _PER_EMISSION.fullmatch(wanted):
        return _markers_per_emission(int(match["count"]), run)
    if match := _AT_LEAST_ONE.fullmatch(wanted):
        return _marker_above(run, run.history.last_commit if match["above"] else None)
    if (match := _AT_MOST.fullmatch(wanted)) and (match["words"] or wanted.startswith("at most ")):
        most = parse_decimal(match["most"])
        return _markers_held_back(run, lambda marker: marker <= most)
    if match := _REACHED.fullmatch(wanted):
        return _markers_reach(parse_decimal(match["least"]), run)
    if match := _BELOW.fullmatch(wanted):
        if not run.history.open_intents():
            return f"no intent is open, and the case expects {wanted!r}"
        bound = parse_decimal(match["bound"])
        return _markers_held_back(run, lambda marker: marker < bound)
    return f"the runner cannot check markers that are expected as {wanted!r}"


def _marker_text(wanted: str, run: FeedRun) -> str | None:
    """Every marker reads like the wanted one but for its timestamp, and every partition has one.

    The timestamp itself is another: a range's resolved timestamp has no logical part.
    """
    shape = _shape(wanted, run)
    for output in run.outputs:
        for place, markers in output.markers.items():
            if not markers:
                return f"no marker on partition {place.partition} of {place.topic}"
            other = next((marker for marker in markers if _shape(marker, run) != shape), None)
            if other is not None:
                return f"expected a marker like {wanted}, got {other}"
    return None


def _shape(marker: str, run: FeedRun) -> str:
    avro = run.options.format is Format.AVRO
    return _HLC.sub("...", canonical(json.loads(marker)) if avro else marker)


def _marker_of(case: Case, run: FeedRun, wanted: str) -> str | None:
    """The encoder's marker at the very timestamp that the case resolves."""
    stamp = _HLC.search(wanted)
    if stamp is None:
        return f"the expected marker {wanted} has no timestamp"
    asked = [write.get("ts") for write in case["writes"] if write["op"] == "resolve"]
    if asked and stamp[0] not in asked:
        return f"the case resolves {asked}, and expects {wanted}"
    timestamp = ResolvedTimestamp(parse_decimal(stamp[0]))
    for table in run.tables:
        encoder = compile_marker(TableName.of(table), run.options)
        body = encoder.encode(timestamp)
        if encoder.schema is None:
            found = body.decode()
        else:
            wanted = canonical(json.loads(wanted))
            found = canonical(avro_value(encoder.schema.text, body))
        if found != wanted:
            return f"expected the marker {wanted}, got {found}"
    return None


def resolved_shape(case: Case, run: FeedRun) -> str | None:
    """The marker's text with dots in place of its timestamp."""
    return _marker_text(str(case["expect"]["resolved_shape"]), run)


def _markers_per_emission(count: int, run: FeedRun) -> str | None:
    """Each marker stands once on each partition of each topic; that it has no key makes it a marker."""
    for output in run.outputs:
        for topic in {place.topic for place in output.markers}:
            emissions = Counter(
                (marker, place.partition)
                for place, markers in output.markers.items()
                if place.topic == topic
                for marker in markers
            )
            stamps = {marker for marker, _ in emissions}
            complete = {(marker, number): 1 for marker in stamps for number in range(count)}
            found = dict.fromkeys(emissions, 1) if run.duplicates else emissions
            if not stamps or found != complete:
                return f"expected each marker once on each of {count} partitions, got {dict(emissions)}"
    return None


def _marker_above(run: FeedRun, above: Timestamp | None) -> str | None:
    for output in run.outputs:
        for place, markers in output.markers.items():
            stamps = [parse_decimal(_stamp_in(marker)) for marker in markers]
            if not stamps or (above is not None and max(stamps) <= above):
                return f"no marker above {above} on partition {place.partition} of {place.topic}: {markers}"
    return None


def _markers_held_back(run: FeedRun, is_held_back: Callable[[Timestamp], bool]) -> str | None:
    """Each partition has a marker, and none is further."""
    for output in run.outputs:
        for place, markers in output.markers.items():
            if not markers or not all(is_held_back(parse_decimal(_stamp_in(marker))) for marker in markers):
                return f"markers on partition {place.partition} of {place.topic}: {markers}"
    return None


def _markers_reach(least: Timestamp, run: FeedRun) -> str | None:
    """Each partition has a marker that is as far; while an intent is open, it goes no further."""
    held_back = run.history.open_intents() > 0
    for output in run.outputs:
        for place, markers in output.markers.items():
            last = max((parse_decimal(_stamp_in(marker)) for marker in markers), default=ZERO)
            if last < least or (held_back and last != least):
                return f"markers on partition {place.partition} of {place.topic}: {markers}"
    return None


def _stamp_in(marker: str) -> str:
    match = _HLC.search(marker)
    if match is None:
        raise ValueError(f"not a marker: {marker}")
    return match[0]
