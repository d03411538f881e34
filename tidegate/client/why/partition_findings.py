"""Explains why a log partition stands still, apart from its ranges, and names partitions of which nothing is
known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tidegate.changefeed.lifecycle.control import HELD_LIMIT_S
from tidegate.client.why.evidence import Evidence, PartitionEvidence
from tidegate.client.why.finding import SEVERAL, Cause, Finding, behind_present, duration
from tidegate.client.why.range_findings import USUAL_LAG_MS, owner_text

_UNACKNOWLEDGED_MS: Final = 5_000  # younger rows are on their way


def troubles(evidence: Evidence, partitions: Iterable[PartitionEvidence]) -> Iterator[Finding]:
    """Yield findings about what keeps these partitions from going on; none if nothing does."""
    for partition in partitions:
        yield from _standing(evidence, partition)
        yield from _unacknowledged(partition)
        yield from _reading(evidence, partition)


def unseen(evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about the log partitions whose ranges are not known.

    These are the partitions that are being restored, and those that no worker described.
    """
    restoring = [each for each in evidence.workers.partitions if each.state == "restoring"]
    yield from troubles(evidence, restoring)
    yield from absent_partitions(evidence)


def absent_partitions(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding about the partitions that no worker described, if there are any.

    In this case yield findings about the workers that did not answer as well.
    """
    known = {each.partition for each in evidence.workers.partitions}
    absent = [number for number in range(evidence.workers.log_partitions) if number not in known]
    if absent:
        told = ", ".join(f"{number} is {owner_text(evidence, number)}" for number in absent[:SEVERAL])
        yield Finding(
            Cause.WORKERS,
            f"Log partition {told}{' and so on' if len(absent) > SEVERAL else ''}: what it has of the span "
            "is not known. Start a worker for it, or name the one that has it by --url.",
            {"partitions": absent},
        )
        yield from silent_workers(evidence)


def silent_workers(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding for each worker that did not answer."""
    for sentence in evidence.workers.silent:
        yield Finding(Cause.WORKERS, sentence)


def _name(partition: PartitionEvidence) -> str:
    return f"Log partition {partition.partition}"


def _facts(partition: PartitionEvidence) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "offset": partition.next_offset,
        "state": partition.state,
        "worker": partition.worker,
    }


def _standing(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    if partition.state == "restoring":
        yield _restoring(partition)
    elif partition.state == "waiting":
        yield _waiting(evidence, partition)
    elif partition.held_for:
        yield _held(partition)


def _restoring(partition: PartitionEvidence) -> Finding:
    return Finding(
        Cause.RESTORING,
        f"{_name(partition)} is being restored from the changelogs by the worker {partition.worker}: it goes "
        "on by itself.",
        _facts(partition),
    )


def _waiting(evidence: Evidence, partition: PartitionEvidence) -> Finding:
    waits = [wait for wait in evidence.workers.registries if wait.worker == partition.worker]
    told = "; ".join(f"{each.registry} for feed {each.feed} ({each.cause})" for each in waits[:SEVERAL])
    return Finding(
        Cause.REGISTRY,
        f"{_name(partition)} waits at offset {partition.next_offset} with a batch for a schema registry: "
        f"{told or 'it has not answered yet'}. Nothing is lost; bring the registry back, or drop the feed.",
        {**_facts(partition), "waiting_ms": max((each.waiting_ms for each in waits), default=0)},
    )


def _held(partition: PartitionEvidence) -> Finding:
    return Finding(
        Cause.HELD,
        f"{_name(partition)} is held at offset {partition.next_offset} for the start of the new feed "
        f"{', '.join(partition.held_for)}: every log partition has to answer first, which takes a moment; "
        f"after {HELD_LIMIT_S:g} s it goes on without that feed.",
        {**_facts(partition), "held_for": list(partition.held_for)},
    )


def _unacknowledged(partition: PartitionEvidence) -> Iterator[Finding]:
    if partition.oldest_unacknowledged_ms > _UNACKNOWLEDGED_MS:
        yield Finding(
            Cause.SINK,
            f"{_name(partition)} waits for the sink: {partition.inflight_rows} rows are not acknowledged, "
            f"the oldest for {duration(partition.oldest_unacknowledged_ms)}. Check that the brokers of the "
            "output topics run and have room; rows do not expire.",
            {**_facts(partition), "oldest_unacknowledged_ms": partition.oldest_unacknowledged_ms},
        )


def _reading(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    reading_ms = evidence.now_ms - partition.log_time_ms
    has_read = partition.log_time_ms > 0
    if partition.state == "running" and partition.lag_records and has_read and reading_ms > USUAL_LAG_MS:
        yield Finding(
            Cause.READING,
            f"{_name(partition)} is read {partition.lag_records} records behind its end, "
            f"{behind_present(reading_ms)}: the worker is slower than the log, or catches up. "
            "Start more workers if that grows.",
            {**_facts(partition), "lag_records": partition.lag_records},
        )
