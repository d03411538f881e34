"""The markers that changefeed cases expect: their text, and how they stand on the partitions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.conformance.avro_text import avro_value, canonical
from tests.conformance.case import Case
from tests.conformance.feed_run import FeedRun, expects_no_marker
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Format
from tidegate.changefeed.encoding.encoder import compile_marker
from tidegate.hlc import ResolvedTimestamp, Timestamp, parse_decimal

_HLC: Final = re.compile(r"\d+\.\d{10}")
_PER_EMISSION: Final = re.compile(r"(?P<count>\d+) records? per emission, one per partition, key null")
_AT_LEAST_ONE: Final = re.compile(
    r"at least one(?P<above>,? (?:strictly )?(?:greater than|above) .* timestamp)?"
)

_STAMP: Final = r"(?P<stamp>\d+(?:\.\d{10})?)"
_UNTIL: Final = r"(?:until|while|as long as|because|since|for) .*"
_REASON: Final = rf"(?:,? (?:\(.*\)|(?:after|when|once) .*|{_UNTIL})|, \D*)?"
_THEN: Final = re.compile(r"[,;]? (?:and )?then ", re.IGNORECASE)
_NEVER: Final = r"(?:is |stays |goes |rises |moves )?(?:never|not)"
_ADVANCES: Final = r"(?:advances?|goes|moves|rises|climbs|catches up)(?: on)?"


def resolved(case: Case, run: FeedRun) -> str | None:
    """The marker's text, or how many there are and where."""
    wanted = str(case["expect"]["resolved"])
    if expects_no_marker(case["expect"]):
        return _no_marker(run)
    if wanted.startswith("{"):
        return _marker_text(wanted, run) or _marker_of(case, run, wanted)
    if match := _PER_EMISSION.fullmatch(wanted):
        return _markers_per_emission(int(match["count"]), run)
    if match := _AT_LEAST_ONE.fullmatch(wanted):
        return _marker_above(run, run.history.last_commit if match["above"] else None)
    *before, last = _THEN.split(wanted)
    failures = (_described(words, run, stands=words is not last) for words in (*before, last))
    return next((failure for failure in failures if failure), None)


def _described(words: str, run: FeedRun, *, stands: bool) -> str | None:
    """Check one description; ``stands``: others follow, so that the markers only stood there for a time."""
    if stands and (match := re.fullmatch(rf"{_STAMP}{_REASON}", words, re.IGNORECASE)):
        return _held_at(parse_decimal(match["stamp"]), words, run)
    for pattern, check in _OF_STAMPS.items():
        if match := re.fullmatch(pattern, words, re.IGNORECASE):
            return check(parse_decimal(match["stamp"]), words, run)
    return f"the runner cannot check markers that are expected as {words!r}"


def _no_marker(run: FeedRun) -> str | None:
    found = [text for output in run.outputs for texts in output.markers.values() for text in texts]
    return f"expected no marker, got {found[0]}" if found else None


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


def resolved_regex(case: Case, run: FeedRun) -> str | None:
    """The pattern describes each marker, and every partition has one."""
    pattern = str(case["expect"]["resolved_regex"])
    for output in run.outputs:
        for place, markers in output.markers.items():
            other = next((marker for marker in markers if not re.fullmatch(pattern, marker)), None)
            if other is not None or not markers:
                return f"expected markers that match {pattern} on {place}, got {other}"
    return None


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


def _stamps(run: FeedRun) -> Iterator[tuple[str, list[Timestamp]]]:
    """Yield each partition with its markers, as texts and as timestamps."""
    for output in run.outputs:
        for place, markers in output.markers.items():
            named = f"markers on partition {place.partition} of {place.topic}: {markers}"
            yield named, [parse_decimal(_stamp_in(marker)) for marker in markers]


def _first_without(run: FeedRun, holds: Callable[[list[Timestamp]], bool]) -> str | None:
    """Return the first partition that has no markers, or whose markers are not so."""
    return next((named for named, stamps in _stamps(run) if not (stamps and holds(stamps))), None)


def _at_most(most: Timestamp, _: str, run: FeedRun) -> str | None:
    return _first_without(run, lambda stamps: max(stamps) <= most)


def _held_at(stamp: Timestamp, _: str, run: FeedRun) -> str | None:
    """Each partition stood there; and no further, while an intent is open."""
    held_back = run.history.open_intents() > 0
    return _first_without(run, lambda stamps: max(stamps) == stamp if held_back else stamp in stamps)


def _below(bound: Timestamp, wanted: str, run: FeedRun) -> str | None:
    if not run.history.open_intents():
        return f"no intent is open, and the case expects {wanted!r}"
    return _first_without(run, lambda stamps: max(stamps) < bound)


def _reached(least: Timestamp, _: str, run: FeedRun) -> str | None:
    """Each partition has a marker that is as far; while an intent is open, it goes no further."""
    held_back = run.history.open_intents() > 0
    return _first_without(run, lambda stamps: max(stamps) == least if held_back else max(stamps) >= least)


def _past(bound: Timestamp, _: str, run: FeedRun) -> str | None:
    return _first_without(run, lambda stamps: max(stamps) > bound)


_MORE: Final = r"(?:higher|more|greater|later|further)"
_NOT_ABOVE: Final = (
    rf"{_NEVER} (?:above|beyond|past|over|{_MORE} than)|no {_MORE} than|does not (?:pass|exceed)"
)
_STAYS: Final = r"(?:stays|remains|waits|stops|stalls|(?:is )?(?:held|stuck|pinned)(?: back)?)"
_MAY_REACH: Final = r"(?:may|can|is allowed to) (?:reach|(?:advance|go|move)(?: on)?(?: up)? to)"
#: The words about one timestamp, and what they say of the markers.
_OF_STAMPS: Final[Mapping[str, Callable[[Timestamp, str, FeedRun], str | None]]] = {
    rf"{_STAMP},? (?:at most|or (?:less|lower|below|earlier))\b.*": _at_most,
    rf"(?:(?:stays |remains )?(?:at most|at or below|<=|≤)) ?{_STAMP}\b.*": _at_most,
    rf"(?:{_NOT_ABOVE}|never (?:passes|exceeds)) {_STAMP}{_REASON}": _at_most,
    rf"{_STAYS} at {_STAMP}{_REASON}": _held_at,
    rf"{_STAMP},? {_UNTIL}": _held_at,
    rf"(?:(?:stays|remains|is|strictly) )?(?:below|under|less than|<) ?{_STAMP}{_REASON}": _below,
    rf"(?:never reaches|does not reach) {_STAMP}{_REASON}": _below,
    rf"(?:is|equals|exactly|equal to|==?) ?{_STAMP}{_REASON}": _held_at,
    rf"(?:{_ADVANCES} (?:past|beyond|above)|passes|exceeds) {_STAMP}{_REASON}": _past,
    rf"(?:above|beyond|{_MORE} than|>) ?{_STAMP}{_REASON}": _past,
    rf"(?:at least|at or above|>=|≥|reaches|up to|{_MAY_REACH}|{_ADVANCES}(?: up)? to) ?{_STAMP}{_REASON}": (
        _reached
    ),
    rf"(?:not below|no (?:lower|less|earlier) than) {_STAMP}{_REASON}": _reached,
    rf"(?:released|resolved|follows closed): ?{_STAMP}{_REASON}": _reached,
    rf"{_ADVANCES} to (?:the )?closed(?: timestamp)? \({_STAMP}\)": _reached,
    rf"{_STAMP}(?:,? (?:at least|or {_MORE}|or above))?{_REASON}": _reached,
}


def _stamp_in(marker: str) -> str:
    match = _HLC.search(marker)
    if match is None:
        raise ValueError(f"not a marker: {marker}")
    return match[0]
