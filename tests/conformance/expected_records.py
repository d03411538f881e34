"""The rows that changefeed cases expect: listed records, patterns, headers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.conformance.case import Case
from tests.conformance.feed_run import FeedOutput, FeedRun, Line
from tests.conformance.record_text import has_member, listed_record, without_members
from tidegate.changefeed.definition.options import Envelope, Format, InitialScan

_HLC: Final = re.compile(r"\d+\.\d{10}")
#: Members of an expectation that say how its records are compared.
OF_RECORDS: Final = frozenset({"allowed", "exactly", "order", "ignore", "duplicates_allowed"})


def no_more_than_written(case: Case, run: FeedRun) -> str | None:
    """One record for each version of a row: no case has to list what must not come."""
    if run.duplicates or run.options.envelope is Envelope.DEBEZIUM:
        return None
    only = run.options.initial_scan is InitialScan.ONLY
    wanted = run.history.scanned if only else run.history.versions
    for output in run.outputs:
        if len(output.rows) != wanted:
            return f"{wanted} row versions gave {len(output.rows)} records: {output.texts}"
    return None


def records(case: Case, run: FeedRun) -> str | None:
    """The listed records in the order of each key, and nothing else where the case says so."""
    expect = case["expect"]
    for output in run.outputs:
        compared = _compared(expect, run, output)
        listed, written = compared.listed, compared.written
        failure = (
            _missing(listed, written)
            or _unlisted(expect, listed + compared.allowed, written)
            or _misordered(expect, listed, written)
            or _never_there(expect.get("ignore", ()), output)
        )
        if failure:
            return f"{failure}; wrote {output.texts}"
    return None


def exactly_for(case: Case, run: FeedRun) -> str | None:
    """Check that these topics have the listed records and nothing else; what is on others is left open."""
    expect = case["expect"]
    names = expect["exactly_for"] if isinstance(expect["exactly_for"], list) else [expect["exactly_for"]]
    for output in run.outputs:
        compared = _compared(expect, run, output)
        written = [line for line in compared.written if line.topic in names]
        surplus = _surplus(compared.listed + compared.allowed, written)
        if surplus:
            return f"unexpected {surplus} on {', '.join(names)}"
    return None


class _Compared(NamedTuple):
    """Records without what the case ignores, and without duplicates where the run may have some."""

    listed: list[Line]
    allowed: list[Line]
    written: list[Line]


def _compared(expect: Mapping[str, Any], run: FeedRun, output: FeedOutput) -> _Compared:
    ignored = expect.get("ignore", ())
    avro = output.activation.definition.options.format is Format.AVRO
    listed, allowed = (
        [without_members(listed_record(text, avro=avro), ignored) for text in _named(expect, name, run)]
        for name in ("records", "allowed")
    )
    written = [without_members(line, ignored) for line in output.rows]
    if run.duplicates:
        listed, written = _first_seen(listed), _first_seen(written)
    return _Compared(listed, allowed, written)


def _named(expect: Mapping[str, Any], name: str, run: FeedRun) -> Iterable[str]:
    """Listed records with the run's timestamps in place of the case's names for them."""
    for text in expect.get(name, ()):
        for label, timestamp in run.history.names.items():
            shown = label if _HLC.fullmatch(label) else f"<{label}>"
            text = text.replace(shown, timestamp.decimal())
        yield text


def _first_seen(lines: Sequence[Line]) -> list[Line]:
    """The records without exact duplicates, which leaves one of several that look alike by themselves."""
    return list({line.text: line for line in lines}.values())


def _missing(listed: Sequence[Line], written: Sequence[Line]) -> str | None:
    lacking = Counter(line.text for line in listed) - Counter(line.text for line in written)
    return f"missing {list(lacking.elements())}" if lacking else None


def _unlisted(expect: Mapping[str, Any], known: Sequence[Line], written: Sequence[Line]) -> str | None:
    if not expect.get("exactly") and "allowed" not in expect:
        return None
    surplus = _surplus(known, written)
    return f"unexpected {surplus}" if surplus else None


def _surplus(known: Sequence[Line], written: Sequence[Line]) -> list[str]:
    counts = Counter(line.text for line in written) - Counter(line.text for line in known)
    return list(counts.elements())


def _misordered(expect: Mapping[str, Any], listed: Sequence[Line], written: Sequence[Line]) -> str | None:
    order = str(expect.get("order", "per key"))
    if order.startswith(("none", "any", "unordered")):
        return None
    if not order.startswith(("per key", "by updated")):  # which rises with the versions of a key
        return f"the runner knows no order {order!r}"
    for key in {(line.topic, line.key) for line in listed}:
        wanted = [line.value for line in listed if (line.topic, line.key) == key]
        found = iter([line.value for line in written if (line.topic, line.key) == key])
        if not all(value in found for value in wanted):
            return f"the records of key {key[1]} come in another order than {wanted}"
    return None


def _never_there(ignored: Sequence[str], output: FeedOutput) -> str | None:
    """A member that a case ignores is one that it expects to be there."""
    absent = [name for name in ignored if not any(has_member(line, name) for line in output.rows)]
    return f"no record has the member {', '.join(absent)}" if absent else None


def values(case: Case, run: FeedRun) -> str | None:
    """Check for these values and no others, whatever their keys."""
    return _values(case["expect"]["values"], run)


def lines(case: Case, run: FeedRun) -> str | None:
    """Check for these lines of a file, which are the values of records, and no others."""
    return _values(case["expect"]["lines"], run)


def _values(wanted: Sequence[str], run: FeedRun) -> str | None:
    for output in run.outputs:
        written = [line.value for line in output.rows]
        if sorted(written) != sorted(wanted):
            return f"expected the values {wanted}, wrote {written}"
    return None


def records_regex(case: Case, run: FeedRun) -> str | None:
    """Each pattern describes a whole record."""
    for output in run.outputs:
        for pattern in case["expect"]["records_regex"]:
            if not any(re.fullmatch(pattern, text) for text in output.texts):
                return f"no record matches {pattern}; wrote {output.texts}"
    return None


def headers(case: Case, run: FeedRun) -> str | None:
    """Every record has these headers and no others, provenance left out."""
    wanted = {name: str(value).encode() for name, value in dict(case["expect"]["headers"]).items()}
    rows = [line for output in run.outputs for line in output.rows]
    if not rows:
        return "no record was written that could have headers"
    other = next((dict(line.headers) for line in rows if dict(line.headers) != wanted), None)
    return None if other is None else f"expected the headers {wanted}, got {other}"
