"""Reads the tables of one or several statements by one gate. If the policy says so, goes on after lost
history.

1. AS OF is chosen from what the topics can still answer (`feed_history`), or from tokens, whose offsets must
   still be there.
2. Records are read partition by partition (`feed_reader`) and given to the gate (`feed_gate`).
3. When the gate opens, each statement makes a batch of the rows that the gate lets through. All these batches
   have one frontier. At the same time Kafka is asked whether the topics are still the same. The batch is
   given once Kafka has confirmed that. A snapshot in chunks is several batches. Only with the last of them
   the snapshot counts as delivered.
4. The tokens have the offsets of the gate, so a resume reads again the rows that wait in the gate.
5. If step 1 or 2 finds that history is lost, the policy decides (`history_policy`). To go on means to begin
   again with step 1, at or above the frontier up to which everything was delivered. The next batch tells of
   the loss.

Failure cases: after a crash before the consumer has stored a token, the batch comes again, with the same
rows. After a later crash nothing comes again. Between 1 and 2 retention may delete records that have to be
read: then step 5 follows. A crash within step 5 repeats it, from the token that was stored before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.subscribe.collector_pace import collector_slowed
from tidegate.client.subscribe.durable_key_rows import DurableKeyRows, open_key_rows
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.feed_gate import FeedGate
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.forms.optional_packages import optional_package
from tidegate.client.subscribe.history_policy import HistoryLoss, HistoryPolicy, plan_behind
from tidegate.client.subscribe.spill_files import SpillFiles, SpillSettings
from tidegate.errors import HistoryLost, InputError, RetryError, SubscribeStatementError, TopologyError
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.columnar_rows import MakeTable
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import GateStart
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.joint_subscription import JointBatch, JointMember, JointSubscription
from tidegate.subscribe.plan import SubscribePlan, require_bounds
from tidegate.subscribe.subscription import (
    Subscription,
    SubscriptionBatch,
    SubscriptionSource,
    comes_in_chunks,
    keeps_rows,
    needs_key_rows,
    resumed,
    takes_parts,
)
from tidegate.subscribe.updates.frontier import Frontier, frontier_after
from tidegate.subscribe.updates.process_share import ProcessShare

_LOGGER: Final = logging.getLogger("tidegate.subscribe")
_POLL_S: Final = 0.2

#: Reads the stored tokens, by the fingerprints of the statements.
ReadTokens = Callable[[Mapping[str, str]], Mapping[str, ResumeToken]]


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A statement's plan, the table that it is about, and the directory of the table's rows by key.

    ``in_chunks`` asks for the snapshot in chunks. ``share`` bounds the rows that the statement keeps in
    memory. ``columnar`` asks for batches as Arrow tables, if the statement allows it and there is no
    ``share``.
    """

    table: SubscribableTable
    plan: SubscribePlan
    key_table: Path | None = None
    track_keys: bool = False
    in_chunks: bool = False
    share: ProcessShare | None = None
    columnar: bool = False


@dataclass(slots=True)
class _Member:
    """One of the statements whose topics are read together.

    ``source`` names the feed and its topic. ``rows`` are the rows by key, if they are on disk.
    """

    planned: PlannedTable
    source: SubscriptionSource
    rows: DurableKeyRows | None

    @property
    def marker_topic(self) -> str:
        return self.planned.table.feed.resolved_topic

    def gives_chunks(self, plan: SubscribePlan, as_of: Timestamp) -> bool:
        """Return whether the snapshot as of ``as_of`` comes in chunks."""
        return comes_in_chunks(plan, as_of, track_keys=self.planned.track_keys)

    def takes_parts(self, plan: SubscribePlan, as_of: Timestamp) -> bool:
        """Return whether the snapshot was asked for in chunks, and its rows may come in parts."""
        tells_before, track_keys = self.source.tells_before, self.planned.track_keys
        can = takes_parts(plan, as_of, tells_before=tells_before, track_keys=track_keys)
        return self.planned.in_chunks and can


@dataclass(slots=True)
class _Start:
    """The timestamps and offsets at which the statements and the gate begin."""

    as_of: Timestamp
    delivered: Timestamp
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    offsets: dict[FeedPartition, int] = field(default_factory=dict)
    parts_up_to: Timestamp = ZERO

    def add(self, name: str, subscription: Subscription, offsets: Mapping[FeedPartition, int]) -> None:
        self.subscriptions[name] = subscription
        for place, offset in offsets.items():
            self.offsets[place] = min(offset, self.offsets.get(place, offset))


class SharedReading:
    """The statements of ``members``, whose feeds write to one cluster. Close it.

    ``tokens`` reads the tokens after which the statements go on. Without ``tokens`` they begin at their AS
    OF.

    Attributes:
        as_of: the timestamp as of which all statements began, or went on after a loss.
        ended: whether UP TO is reached, the feed has succeeded and all of it was given, or the reading is
            closed.
        loss: the lost history just before the batch that ``next`` returned last; ``None`` if none was lost
            there.
    """

    def __init__(
        self,
        members: Mapping[str, PlannedTable],
        tokens: ReadTokens | None = None,
        policy: HistoryPolicy = HistoryPolicy.STALL,
        spill: SpillSettings | None = None,
    ) -> None:
        _require_fitting(members, policy)
        self._spill = spill or SpillSettings()
        self._chunk_files = SpillFiles(self._spill.directory)
        self._policy = policy
        self.ended = False
        self.loss: HistoryLoss | None = None
        self._coming_loss: HistoryLoss | None = None
        self._lost: HistoryLost | None = None
        self._opened: JointBatch[SubscriptionBatch] | None = None
        self._held: Frontier | None = None
        self._batches = self._delivered_rows = self._repeats = self._losses = 0
        self._connection = next(iter(members.values())).table.connection
        histories = {name: FeedHistory.now(each.table) for name, each in members.items()}
        self._ids = self._topic_ids(histories)
        with ExitStack() as opened:  # closes what was opened if the rest fails
            self._members = {name: self._member(each, opened) for name, each in members.items()}
            if tokens is None:
                self._begin(histories, {name: each.plan for name, each in members.items()})
            else:
                self._resume(histories, tokens)
            opened.pop_all()
        self.subscriptions: Mapping[str, Subscription] = self._start.subscriptions

    @property
    def as_of(self) -> Timestamp:
        """The timestamp as of which the statements began, or went on after a loss."""
        return self._start.as_of

    @property
    def is_waiting(self) -> bool:
        """Whether ``next`` waits, or was interrupted while it waited and had taken nothing."""
        return self._gate.is_waiting

    def next(self, timeout_s: float | None = None) -> JointBatch[SubscriptionBatch] | None:
        """Return the next batch; ``None`` at the end, and when none has come within ``timeout_s``.

        A call reads at least once, and looks whether the gate opens after it has read for the last time: so a
        call with a timeout of 0 also delivers what is there.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        is_over = False
        while not self.ended:
            left = _POLL_S if until is None else max(min(_POLL_S, until - time.monotonic()), 0)
            try:
                if self._lost is not None:
                    if not is_over:
                        self._recover(self._lost)
                elif self._opens():
                    if (batch := self._confirmed(left)) is not None:
                        return batch
                elif not is_over:
                    self._read(left)
            except HistoryLost as lost:
                if self._policy is HistoryPolicy.STALL or self._lost is not None:
                    raise
                self._lost = lost
            if is_over:
                return None
            is_over = until is not None and time.monotonic() >= until
        return None

    def settle(self, frontier: Frontier) -> None:
        """Say that tokens of ``frontier`` are stored."""
        for member in self._members.values():
            if member.rows is not None:
                member.rows.settle(frontier)

    def figures(self, output: str) -> SubscriptionFigures:
        """Return the figures of all subscriptions together. Any thread may ask."""
        read = self._gate.figures(output)
        return replace(
            read,
            batches=self._batches,
            rows=self._delivered_rows,
            repeats=self._repeats + read.repeats + self._copies(),
            losses=self._losses,
        )

    def close(self) -> None:
        """Close the client and the rows by key."""
        self.ended = True
        self._gate.close()
        self._chunk_files.close()
        for member in self._members.values():
            if member.rows is not None:
                member.rows.close()

    def _copies(self) -> int:
        return sum(each.copies for each in self._start.subscriptions.values())

    def _member(self, planned: PlannedTable, opened: ExitStack) -> _Member:
        table = planned.table
        name = f"{table.feed.feed_id}/{self._ids[table.target.topic]}"
        rows = None
        if planned.key_table is not None:
            goes_on = self._policy is not HistoryPolicy.STALL
            relation = planned.plan.relation
            rows = open_key_rows(planned.key_table, name, relation, discard_lost=goes_on)
            opened.callback(rows.close)
        make_table = _make_table(planned) if planned.columnar else None
        source = SubscriptionSource(name, table.tells_before, rows, planned.share, make_table)
        return _Member(planned, source, rows)

    def _topic_ids(self, histories: Mapping[str, FeedHistory]) -> dict[str, str]:
        places = {place for each in histories.values() for place in (*each.rows, *each.markers)}
        admin = open_admin(self._connection, self._connection.timeout_s)
        return admin.ids(sorted({place.topic for place in places}))

    def _resume(self, histories: Mapping[str, FeedHistory], read: ReadTokens) -> None:
        prints = {
            name: fingerprint(each.planned.plan, each.source.name) for name, each in self._members.items()
        }
        tokens = read(prints)
        self._held = next(iter(tokens.values())).frontier
        try:
            as_of = next(iter(tokens.values())).as_of
            start = _Start(as_of, as_of)
            for name, member in self._members.items():
                token = tokens[name]
                histories[name].require(token)
                if member.rows is not None:
                    member.rows.go_back_to(token.frontier)
                subscription, own = resumed(member.planned.plan, token, member.source)
                start.add(name, subscription, own.offsets)
        except HistoryLost as lost:
            whole = all(histories[name].reaches(token.offsets) for name, token in tokens.items())
            if self._policy is HistoryPolicy.STALL or not whole:
                raise
            self._go_on(histories, lost)
        else:
            self._read_from(histories, start)

    def _begin(self, histories: Mapping[str, FeedHistory], plans: Mapping[str, SubscribePlan]) -> None:
        """Begin all statements at one AS OF."""
        all_rows = {
            name: plan.snapshot
            or keeps_rows(plan)
            or needs_key_rows(plan, tells_before=self._members[name].source.tells_before)
            for name, plan in plans.items()
        }
        as_of = _joint_as_of(histories, plans, all_rows)
        start = _Start(as_of, ZERO if any(all_rows.values()) else as_of)
        chunks = self._chunks_of(plans, as_of)
        if chunks is not None:
            start.parts_up_to = as_of
        for name, plan in plans.items():
            if plan.up_to is not None:
                require_bounds(str(as_of), str(plan.up_to), crossed=as_of > plan.up_to)
            member = self._members[name]
            offsets = histories[name].starts(as_of, from_beginning=all_rows[name])
            if member.rows is not None:
                member.rows.start_over()
            subscription = Subscription(
                plan,
                as_of,
                member.source,
                start=GateStart(start.delivered, offsets),
                track_keys=member.planned.track_keys,
                chunks=chunks,
                chunks_apart=len(plans) > 1,
            )
            start.add(name, subscription, offsets)
        if not any(plan.snapshot for plan in plans.values()) and self._held is None:
            self._held = frontier_after(as_of)  # nothing below it was asked for
        self._read_from(histories, start)

    def _chunks_of(self, plans: Mapping[str, SubscribePlan], as_of: Timestamp) -> Spill | None:
        """Return the store in which the rows of snapshots wait for their chunks; ``None`` if there are no
        chunks.

        The memory for one statement is shared among all statements.
        """
        members = [(self._members[name], plan) for name, plan in plans.items()]
        if not all(member.takes_parts(plan, as_of) for member, plan in members):
            return None
        if not any(member.gives_chunks(plan, as_of) for member, plan in members):
            return None
        return Spill(self._chunk_files, self._spill.memory_bytes // len(members))

    def _read_from(self, histories: Mapping[str, FeedHistory], start: _Start) -> None:
        self._start = start
        self._joint = JointSubscription(
            {
                name: JointMember(subscription, self._topic(name), self._members[name].marker_topic)
                for name, subscription in start.subscriptions.items()
            }
        )
        self._gate = FeedGate(
            self._connection,
            list(histories.values()),
            self._ids,
            GateStart(start.delivered, start.offsets, start.parts_up_to),
            self._spill,
        )

    def _topic(self, name: str) -> str:
        return self._members[name].planned.table.target.topic

    def _read(self, timeout_s: float) -> None:
        """Read for up to ``timeout_s`` seconds. End the reading if nothing follows because the feed has
        succeeded."""
        self._gate.read(timeout_s)
        if self._gate.has_ended(is_begun=self._held is not None):
            self.ended = True

    def _opens(self) -> bool:
        """Return whether there is a batch that was not given yet. Make one if the gate opens."""
        while self._opened is None:
            with collector_slowed():
                self._opened = self._joint.following()
                if self._opened is not None:
                    break
                opening = self._gate.open()
                if opening is None:
                    return False
                self._opened = self._joint.advance(opening, self._gate.offsets())
        return True

    def _confirmed(self, timeout_s: float) -> JointBatch[SubscriptionBatch] | None:
        """Return the batch that was made, once the topics are known to be the same; ``None`` after
        ``timeout_s`` seconds."""
        batch = self._opened
        if batch is None or not self._gate.is_same(timeout_s):
            return None
        self._opened = None
        self.ended = batch.is_last
        if not batch.is_partial:
            self._held = batch.frontier
        self._batches += 1
        self._delivered_rows += sum(len(each.rows) for each in batch.members.values())
        self.loss, self._coming_loss = self._coming_loss, None
        return batch

    def _recover(self, lost: HistoryLost) -> None:
        """Go on after a loss. If Kafka is away, the next call tries again.

        Raises ``HistoryLost`` for a loss with which the policy does not help.
        """
        self._gate.close()
        self._chunk_files.close()
        self._opened = None
        read, copies = self._gate, self._copies()
        try:
            self._go_on(self._readable(read.positions, lost), lost)
        except (RetryError, TopologyError) as error:
            _LOGGER.info("a subscription waits for Kafka, to go on after lost history: %s", error)
            return
        self._repeats += read.gate.repeats + copies
        self._lost = None

    def _readable(self, positions: Mapping[FeedPartition, int], lost: HistoryLost) -> dict[str, FeedHistory]:
        """Return the histories that the topics have now.

        Raises ``lost`` unless they are the topics that were read, and end at or after ``positions``.
        """
        try:
            histories = {name: FeedHistory.now(each.planned.table) for name, each in self._members.items()}
            ids = self._topic_ids(histories)
        except InputError as error:  # its topics are gone, or the address means another cluster
            raise lost from error
        if ids != self._ids or not all(each.reaches(positions) for each in histories.values()):
            # A topic that is there anew has no scan of its feed, and one that was cut lacks rows: what they
            # have is no table.
            raise lost
        return histories

    def _go_on(self, histories: Mapping[str, FeedHistory], lost: HistoryLost) -> None:
        held = self._held
        if held is None:  # nothing was delivered: what was asked for cannot be read
            raise lost
        plans = {
            name: plan_behind(each.planned.plan, held, self._policy) for name, each in self._members.items()
        }
        try:
            self._begin(histories, plans)
        except (HistoryLost, SubscribeStatementError) as also:  # the second: UP TO is lost as well
            raise HistoryLost(
                f"{lost}. To {self._policy.value} does not help: {also}",
                lost.topic,
                lost.partition,
                lost.offset,
            ) from lost
        self._losses += 1
        self._coming_loss = HistoryLoss(self._policy, held, self._start.as_of, lost)
        _LOGGER.warning("%s", self._coming_loss)


def _make_table(planned: PlannedTable) -> MakeTable | None:
    if planned.share is not None:
        return None  # it counts rows
    optional_package("pyarrow", "arrow", "columns")
    # Imported here: it needs pyarrow.
    from tidegate.client.subscribe.columnar.columnar_changes import columnar_changes

    return columnar_changes(planned.plan, tells_before=planned.table.tells_before)


def _joint_as_of(
    histories: Mapping[str, FeedHistory],
    plans: Mapping[str, SubscribePlan],
    all_rows: Mapping[str, bool],
) -> Timestamp:
    """Return the AS OF of several plans, which have the same bounds.

    Without an AS OF it is the lowest present of their tables, so the snapshot does not wait until the slowest
    feed has caught up. If some table cannot be read from that timestamp on, it is the lowest timestamp from
    which all tables can be read. Raises ``HistoryLost``.
    """
    chosen = {
        name: histories[name].choose_as_of(plan, from_beginning=all_rows[name])
        for name, plan in plans.items()
    }
    lowest = min(chosen.values())
    if lowest == max(chosen.values()):
        return lowest
    return max(
        histories[name].choose_as_of(
            replace(plan, as_of=lowest, at_least=True), from_beginning=all_rows[name]
        )
        for name, plan in plans.items()
    )


def _require_fitting(members: Mapping[str, PlannedTable], policy: HistoryPolicy) -> None:
    """Raise ``InputError`` for a policy that the statements exclude, and for keys that cannot be tracked."""
    for each in members.values():
        if policy is HistoryPolicy.RESNAPSHOT and not each.plan.snapshot:
            raise InputError(
                "A subscription WITH (SNAPSHOT = false) has no snapshot to begin again with: take another "
                "policy for lost history, or SNAPSHOT = true, which a resume does not give again."
            )
        if each.track_keys and not each.plan.snapshot:
            raise InputError(
                "track_keys counts the rows of each key from a snapshot on: leave SNAPSHOT = false out."
            )
        if policy is HistoryPolicy.SKIP and (each.track_keys or keeps_rows(each.plan)):
            raise InputError(
                "A query with LIMIT or OFFSET, and keys that are tracked, need every row: changes cannot be "
                "skipped. Take another policy for lost history."
            )
