"""Explains why a range's resolved timestamp does not rise, by the facts that its worker tells."""

from __future__ import annotations

from typing import Any, Final

from tidegate.client.why.evidence import Evidence, PartitionEvidence
from tidegate.client.why.finding import Cause, Finding, Keys, age, behind_present, duration, elapsed
from tidegate.hlc import Timestamp
from tidegate.processor.moving.parking import HAND_OFF_LIMIT_MS
from tidegate.processor.push_policy import LastPush
from tidegate.processor.range_facts import Condition, OpenTxn, RangeFacts
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.scan import SCAN_REPEAT_MS
from tidegate.verify import TopicPartition

#: Sources close timestamps some seconds behind the present, and heartbeats need some more seconds to arrive.
USUAL_LAG_MS: Final = 10_000


class RangeFindings:
    """Explains ranges of one log partition."""

    def __init__(self, evidence: Evidence, partition: PartitionEvidence, keys: Keys) -> None:
        self._evidence = evidence
        self._partition = partition
        self._keys = keys

    def of(self, facts: RangeFacts) -> Finding:
        """Return the finding that says what the range waits for."""
        match facts.condition:
            case Condition.QUARANTINED:
                return self._quarantined(facts)
            case Condition.HEALING:
                return self._healing(facts)
            case Condition.PARKED:
                return self._parked(facts)
            case Condition.CATCHING_UP:
                return self._catching_up(facts)
            case Condition.STARTING | Condition.CHANGING:
                return self._snapshot(facts)
            case _:
                return self._live(facts)

    # ---- ranges that are not live

    def _quarantined(self, facts: RangeFacts) -> Finding:
        return self._finding(
            Cause.QUARANTINED,
            facts,
            f"{self._name(facts)} is quarantined at {facts.resolved} since offset {facts.offset} of its log "
            f"partition: {facts.cause}. It gives nothing until a Snapshot of it comes, and no scan can begin "
            "before that: have the source write one.",
        )

    def _healing(self, facts: RangeFacts) -> Finding:
        scan = facts.scan
        assert scan is not None
        age_ms = self._partition.log_time_ms - scan.asked_ms
        cause = f" after a hole ({facts.cause})" if facts.cause else ""
        hole = f"{self._name(facts)} heals{cause}"
        where = (
            f"has come to {self._keys.key(scan.next_key)} of the keys {self._keys.span(scan.span)}"
            if scan.next_key > scan.span.start
            else f"of the keys {self._keys.span(scan.span)} has brought nothing yet"
        )
        return self._finding(
            Cause.HEALING,
            facts,
            f"{hole}: the scan of versions above {scan.after} and up to {scan.upto} {where}. It was asked "
            f"for, or went on, {elapsed(age_ms)} ago by the log's time; after {SCAN_REPEAT_MS // 1000} s "
            f"without progress it is asked for again. {facts.entries} entries wait behind it. Should nothing "
            f"come, check that the source reads {self._requests} and answers scans.",
            scan=facts.to_json()["scan"],
            waiting_ms=self._waiting_ms(facts),
        )

    def _parked(self, facts: RangeFacts) -> Finding:
        parents = ", ".join(self._parent(parent) for parent in facts.parents)
        waiting_ms = self._waiting_ms(facts)
        return self._finding(
            Cause.PARKED,
            facts,
            f"{self._name(facts)} is parked at offset {facts.offset} and has waited for "
            f"{elapsed(waiting_ms)} of the log's time for the hand-off of {parents}; {facts.entries} "
            "entries wait behind it. It goes on once the parent's log partition was read up to where the "
            f"range comes from, and scans if {HAND_OFF_LIMIT_MS // 1000} s of log time behind that bring "
            "nothing of the parent; until then look at what holds that partition back.",
            parents=list(facts.parents),
            waiting_ms=waiting_ms,
        )

    def _parent(self, parent: RangeId) -> str:
        number = partition_of(parent, self._evidence.workers.log_partitions)
        partition = self._evidence.partition(number)
        if partition is not None:
            lag = "" if not partition.lag_records else f", {partition.lag_records} records behind the log"
            return f"range {parent} (log partition {number}, {partition.state}{lag})"
        return f"range {parent} (log partition {number}, {owner_text(self._evidence, number)})"

    def _catching_up(self, facts: RangeFacts) -> Finding:
        return self._finding(
            Cause.CATCHING_UP,
            facts,
            f"{self._name(facts)} waits for nothing and applies what it is behind with: {facts.entries} "
            f"entries from offset {facts.offset} on. It goes on by itself.",
        )

    def _snapshot(self, facts: RangeFacts) -> Finding:
        why = (
            "has split or merged, and the Snapshot that must follow is not complete"
            if facts.condition is Condition.CHANGING
            else "begins, and its first Snapshot is not complete"
        )
        return self._finding(
            Cause.SNAPSHOT,
            facts,
            f"{self._name(facts)} {why}: {self._reading}. Check that the source goes on writing the range.",
        )

    # ---- live ranges

    def _live(self, facts: RangeFacts) -> Finding:
        txn = facts.txn
        if txn is not None and txn.timestamp <= facts.closed:
            return self._transaction(facts, txn)
        return self._closed(facts)

    def _transaction(self, facts: RangeFacts, txn: OpenTxn) -> Finding:
        age_ms = self._partition.log_time_ms - txn.began.wall_ms
        anchor = f" Its anchor is {self._keys.key(txn.anchor_key)}." if txn.anchor_key else ""
        intents = "1 intent" if txn.intents == 1 else f"{txn.intents} intents"
        others = f" ({facts.open_transactions - 1} more are open)" if facts.open_transactions > 1 else ""
        return self._finding(
            Cause.TRANSACTION,
            facts,
            f"Transaction {txn.txn_id.hex()} has been open for {elapsed(age_ms)} of the log's time, with "
            f"{intents} at {txn.timestamp} in {self._name(facts).lower()}{others}; the range cannot be "
            f"resolved above that.{anchor} {self._push(facts, txn, age_ms)}",
            transaction={**(facts.to_json()["oldest_transaction"] or {}), "age_ms": age_ms},
            anchor_key_text=self._keys.key(txn.anchor_key),
            last_push=facts.to_json()["last_push"],
            push_enabled=self._evidence.workers.push_enabled,
        )

    def _push(self, facts: RangeFacts, txn: OpenTxn, age_ms: int) -> str:
        workers = self._evidence.workers
        if not workers.push_enabled:
            return (
                "Pushing is switched off (push_enabled), so nobody asks what became of it: end it at the "
                "source, or switch pushing on."
            )
        push = facts.push
        if push is None:
            pushed_at = f"It has not been pushed: that begins at an age of {duration(workers.push_age_ms)}"
            if age_ms <= workers.push_age_ms:
                return f"{pushed_at}, and a transaction this young is usual."
            return f"{pushed_at}, with the next record of the range."
        ago = elapsed(self._partition.log_time_ms - push.asked_ms)
        if push.oldest != txn.txn_id:
            return f"The last push, {ago} ago, was of older ones: {_outcome(push)}. The next one names it."
        if push.oldest_at != txn.timestamp:
            return (
                f"It was pushed {ago} ago, and the answer moved it from {push.oldest_at}: it is alive, and "
                "its client has to commit or roll back."
            )
        times = "once" if push.tries == 1 else f"{push.tries} times"
        return (
            f"It was pushed {times}, the last time {ago} ago, and no answer has come: check that the source "
            f"reads {self._requests} and answers in the log."
        )

    def _closed(self, facts: RangeFacts) -> Finding:
        lag_ms = self._evidence.now_ms - facts.closed.wall_ms
        if lag_ms <= USUAL_LAG_MS:
            return self._finding(
                Cause.NOTHING,
                facts,
                f"Nothing holds it back: the source closes timestamps {behind_present(lag_ms)} "
                f"({self._name(facts).lower()}), and nothing can be resolved above them.",
                closed_lag_ms=lag_ms,
            )
        since = f"the source has not closed a timestamp since {facts.closed}, {behind_present(lag_ms)}"
        if facts.closed == Timestamp(0):
            since = "the source has not closed any timestamp yet"
        return self._finding(
            Cause.CLOSED,
            facts,
            f"{self._name(facts)} has no open transaction that holds it, but {since}; "
            f"{self._reading}. Check that the range has a leaseholder, and that the "
            "source ships its heartbeats.",
            closed_lag_ms=lag_ms,
        )

    # ---- parts of sentences

    @property
    def _reading(self) -> str:
        partition = self._partition
        if partition.next_offset is None:
            return f"log partition {partition.partition} has not been read yet"
        where = f"log partition {partition.partition} was read up to offset {partition.next_offset}"
        if partition.log_time_ms:
            where += f", where a record is {age(self._evidence.now_ms - partition.log_time_ms)}"
        if partition.lag_records is None:
            return where
        return where + (
            f", {partition.lag_records} records before its end" if partition.lag_records else ", its end"
        )

    @property
    def _requests(self) -> str:
        return f"{self._evidence.workers.log.removesuffix('raftlog')}requests"

    def _name(self, facts: RangeFacts) -> str:
        return f"Range {facts.range_id} (generation {facts.generation}, log partition {self._number})"

    @property
    def _number(self) -> int:
        return self._partition.partition

    def _waiting_ms(self, facts: RangeFacts) -> int:
        return self._partition.log_time_ms - (facts.since_ms or self._partition.log_time_ms)

    def _finding(self, cause: Cause, facts: RangeFacts, sentence: str, **more: Any) -> Finding:
        partition = self._partition
        return Finding(
            cause,
            sentence,
            {
                "partition": partition.partition,
                "offset": partition.next_offset if facts.offset is None else facts.offset,
                "range_id": facts.range_id,
                "generation": facts.generation,
                "state": facts.condition.value,
                "resolved": str(facts.resolved),
                "closed": str(facts.closed),
                "worker": partition.worker,
                **more,
            },
        )


def _outcome(push: LastPush) -> str:
    unanswered = push.txns - push.ended - push.moved
    return f"{push.ended} ended, {push.moved} moved, {unanswered} without an answer"


def owner_text(evidence: Evidence, number: int) -> str:
    """Return, as half a sentence, who has a log partition that none of the workers that answered has."""
    if evidence.members is None:
        return "on none of the workers that were asked"
    owner = evidence.owner(TopicPartition(evidence.workers.log, number))
    if owner is None:
        return "without a worker"
    return f"on the worker {owner}, which was not asked"
