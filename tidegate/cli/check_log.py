"""``tidegate debug check-log``: finds where a log breaks the log contract."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click

from tidegate.cli.kafka_options import kafka_options, topic_prefix_option
from tidegate.cli.printing import echo
from tidegate.client.kafka.cluster import Cluster, partitions_of
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.log_in_time import read_in_time
from tidegate.logcheck.breach import Breach, BreachPlace, Rule
from tidegate.logcheck.log_check import CheckedRecord, LogCheck, LogOptions, Seen
from tidegate.logcheck.memory import CheckLimits
from tidegate.processor.containment import unforeseen
from tidegate.verify import TopicPartition


class _Findings:
    """The breaches of a log: all of them are counted, the first ``limit`` are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.first: list[Breach] = []
        self.counts: Counter[Rule] = Counter()
        self.faults: list[str] = []
        self.fault_count = 0

    def add(self, breach: Breach) -> None:
        """Count a breach."""
        self.counts[breach.rule] += 1
        if len(self.first) < self._limit:
            self.first.append(breach)

    def add_fault(self, place: BreachPlace, error: Exception) -> None:
        """Note an exception of the check itself at a record.

        What the check finds later about the record's range may be wrong. Raises ``error`` if the data is not
        at fault.
        """
        cause = unforeseen(error)
        self.fault_count += 1
        if len(self.faults) < self._limit:
            self.faults.append(f"partition {place.partition}, offset {place.offset}: {cause}")


@click.command("check-log")
@click.option(
    "--ended",
    is_flag=True,
    help="The source has stopped and writes no more: entries that are not complete at the end are breaches.",
)
@click.option(
    "--keys",
    type=click.IntRange(min=1),
    default=CheckLimits().keys,
    show_default=True,
    help="For how many keys the check remembers the newest version, about 430 bytes each.",
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="How many breaches to show; all are counted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
@topic_prefix_option
@kafka_options
@click.pass_context
def check_log(
    ctx: click.Context,
    connection: KafkaConnection,
    topic_prefix: str,
    ended: bool,
    keys: int,
    limit: int,
    as_json: bool,
) -> None:
    """Check a whole log by the rules of the log contract, for authors of sources.

    It names each breach with partition, offset and rule; docs/log-contract.md has the rules. The exit status
    is 1 when there is any breach, or when the check itself met an exception. The log is read up to where it
    ends now. Memory grows with ranges and open transactions, not with the log.
    """
    topic = f"{topic_prefix}raftlog"
    findings = _Findings(limit)
    seen, partitions = _check(connection, topic, findings, ended=ended, keys=keys)
    if as_json:
        echo(json.dumps(_as_json(topic, partitions, findings, seen), indent=2))
    else:
        _print(topic, partitions, findings, seen)
    ctx.exit(1 if findings.counts or findings.fault_count else 0)


def _check(
    connection: KafkaConnection, topic: str, findings: _Findings, *, ended: bool, keys: int
) -> tuple[Seen, int]:
    """Read and check the log; return what was seen, and the partition count."""
    cluster = Cluster(connection)
    counts = cluster.partition_counts([topic])
    bounds = cluster.bounds(partitions_of(counts))
    starts = {place: each.low for place, each in bounds.items()}
    options = LogOptions(
        counts[topic],
        {place.partition: low for place, low in starts.items()},
        ended=ended,
        limits=CheckLimits(keys=keys),
    )
    check = LogCheck(options, findings.add)
    ends: dict[TopicPartition, int] = {place: each.end for place, each in bounds.items()}
    for record in read_in_time(connection, starts, ends):
        place = BreachPlace(record.partition, record.offset)
        try:
            check.check_next(CheckedRecord(place, record.key, record.value, record.timestamp_ms))
        except Exception as error:
            findings.add_fault(place, error)
    return check.finish(), counts[topic]


def _as_json(topic: str, partitions: int, findings: _Findings, seen: Seen) -> dict[str, Any]:
    return {
        "log": topic,
        "partitions": partitions,
        "records": seen.records,
        "ranges": seen.ranges,
        "holes": seen.holes,
        "copies": seen.copies,
        "breaches": findings.counts.total(),
        "rules": {rule.id: findings.counts[rule] for rule in Rule if findings.counts[rule]},
        "first_breaches": [breach.to_json() for breach in findings.first],
        "undecided": list(seen.undecided),
        "faults": findings.fault_count,
        "first_faults": findings.faults,
    }


def _print(topic: str, partitions: int, findings: _Findings, seen: Seen) -> None:
    for breach in findings.first:
        where = ""
        if breach.place is not None:
            where = f"partition {breach.place.partition}, offset {breach.place.offset}: "
        echo(f"{where}{breach.rule.id}: {breach.sentence} ({breach.rule.link})")
    total = findings.counts.total()
    if total > len(findings.first):
        echo(f"... and {total - len(findings.first)} more (--limit)")
    if total:
        echo()
    echo(
        f"{topic}: {seen.records} records of {seen.ranges} ranges in {partitions} partitions, "
        f"{total} {'breach' if total == 1 else 'breaches'} of the log contract, {seen.holes} holes, "
        f"{seen.copies} copies."
    )
    for rule in Rule:
        if findings.counts[rule]:
            echo(f"  {findings.counts[rule]:>7}  {rule.id}: {rule.value}")
    for fault in findings.faults:
        echo(f"Not checked: {fault}.")
    if findings.fault_count > len(findings.faults):
        echo(f"... and {findings.fault_count - len(findings.faults)} more (--limit)")
    for sentence in seen.undecided:
        echo(f"Not decided: {sentence}.")
