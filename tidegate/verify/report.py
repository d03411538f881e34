"""The outcome of an audit, as a value, as text and as JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tidegate.hlc import Timestamp
from tidegate.verify.violation import Violation, ViolationKind, key_text


class Verdict(enum.Enum):
    """The outcome of an audit. The value is the exit code of the command line."""

    PASSED = 0
    VIOLATED = 1
    INCOMPLETE = 2


class Unchecked(NamedTuple):
    """Rules that could not be checked, or not for every row, with the reason."""

    kinds: tuple[ViolationKind, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """The counts of an audit.

    ``rows`` counts records, and ``duplicates`` those of them that were repeats. ``tombstones`` follow
    deletions, and are no rows. ``left_out`` rows were too large, so that only their keys were written.
    ``undecided`` rows may be repeats of rows that are deleted or forgotten. ``untimed`` rows tell no
    timestamp. ``expected`` is how many versions the source's history asks for. ``of_other_feeds`` records
    are of feeds that have had the topics before or after, and were passed over.
    """

    partitions: int
    keys: int
    rows: int
    duplicates: int
    undecided: int
    untimed: int
    markers: int
    expected: int
    tombstones: int = 0
    left_out: int = 0
    of_other_feeds: int = 0


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The verdict and its evidence.

    ``violations`` has the first ones that were found, ``violation_counts`` counts all of them. Up to
    ``covered`` the topics are complete: that is the lowest of the partitions' last markers. For a feed that
    has succeeded it is at least the start.
    """

    verdict: Verdict
    counts: AuditCounts
    violations: tuple[Violation, ...]
    violation_counts: Mapping[ViolationKind, int]
    unchecked: tuple[Unchecked, ...]
    covered: Timestamp

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def as_json(self) -> dict[str, Any]:
        """Return the report as values that ``json.dumps`` takes. Keys are shown as text."""
        return {
            "verdict": self.verdict.name.lower(),
            "covered": self.covered.decimal(),
            "counts": asdict(self.counts),
            "violation_counts": {kind.name.lower(): n for kind, n in self.violation_counts.items()},
            "violations": [_violation_json(violation) for violation in self.violations],
            "unchecked": [
                {"rules": [kind.name.lower() for kind in kinds], "reason": reason}
                for kinds, reason in self.unchecked
            ],
        }


def _violation_json(violation: Violation) -> dict[str, Any]:
    timestamp = violation.timestamp
    return {
        "kind": violation.kind.name.lower(),
        "topic": violation.topic,
        "partition": violation.partition,
        "offset": violation.offset,
        "key": None if violation.key is None else key_text(violation.key),
        "timestamp": None if timestamp is None else timestamp.decimal(),
        "sentence": violation.sentence,
    }


_HEADLINES = {
    Verdict.PASSED: "PASSED: the topics keep every rule that was checked",
    Verdict.VIOLATED: "VIOLATED: the topics break a rule",
    Verdict.INCOMPLETE: "INCOMPLETE: nothing wrong was found, but not everything could be checked",
}


def _lines(report: AuditReport) -> Iterator[str]:
    yield _HEADLINES[report.verdict]
    counts = report.counts
    yield (
        f"  {counts.rows:,} rows ({counts.duplicates:,} repeated) of {counts.keys:,} keys"
        f" and {counts.markers:,} markers on {counts.partitions:,} partitions"
    )
    if counts.tombstones:
        yield f"  {counts.tombstones:,} tombstones after deletions"
    if counts.left_out:
        yield f"  {counts.left_out:,} rows were too large: their keys are there, and their values left out"
    if counts.of_other_feeds:
        yield f"  {counts.of_other_feeds:,} records of feeds that had the topics before or after, passed over"
    yield f"  complete up to {report.covered}"
    if counts.expected:
        yield f"  compared with {counts.expected:,} committed versions"
    yield from _violation_lines(report)
    for kinds, reason in report.unchecked:
        yield f"  not checked ({', '.join(kind.name for kind in kinds)}): {reason}"


def _violation_lines(report: AuditReport) -> Iterator[str]:
    for kind, count in report.violation_counts.items():
        yield f"  {kind.name} x {count:,}: {kind.value}"
    for violation in report.violations:
        yield f"    {violation.kind.name}: {violation.sentence}"
    left_out = sum(report.violation_counts.values()) - len(report.violations)
    if left_out:
        yield f"    and {left_out:,} more"
