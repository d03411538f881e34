"""A whole consumer: gate, subscription, consumer state and a target that stores rows and token together.

A crash loses everything but the target. It has the rows of the last batch that it stored, its token, and,
where the subscription needs one, the table of rows by key as of that batch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tests.unit.subscribe.topic_histories import RELATION, TOPICS, TopicHistory, reread
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.client.consumer_state import ConsumerState
from tidegate.subscribe.client.resume_token import ResumeToken, read_token
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.subscription import (
    Subscription,
    SubscriptionBatch,
    SubscriptionSource,
    comes_in_chunks,
    resumed,
)
from tidegate.subscribe.updates.relation import Relations
from tidegate.subscribe.updates.value_order import values_key

#: The envelopes of a statement about the table of these tests.
MODES = (
    "",
    "WITHIN TIMESTAMP ORDER BY balance DESC, mz_diff",
    "ENVELOPE UPSERT (KEY (id))",
    "ENVELOPE DEBEZIUM (KEY (id))",
)
_WRAPPED = JsonDecoder(Envelope.WRAPPED)
DECODERS = dict.fromkeys(TOPICS, _WRAPPED)


@dataclass(slots=True)
class Target:
    """The target of a consumer: all of it changes in one transaction."""

    contents: TableContents
    token: str = ""
    key_rows: MemoryKeyRows = field(default_factory=MemoryKeyRows)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    frontiers: list[Timestamp] = field(default_factory=list)
    states: list[list[tuple[Any, ...]]] = field(default_factory=list)
    snapshots: int = 0
    batches: list[SubscriptionBatch] = field(default_factory=list)


def by_value(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in the order in which contents are told."""
    return sorted(rows, key=values_key)


def plan_of(text: str, dialect: Dialect = Dialect.TIDEGATE) -> SubscribePlan:
    """The plan of a statement about the table of these tests."""
    return plan_subscribe(parse_subscribe(text), Relations([RELATION]), now_ns=0, dialect=dialect)


def consume(
    history: TopicHistory,
    plan: SubscribePlan,
    *,
    tells_before: bool = True,
    crashes: Sequence[int] = (),
    contents: TableContents | None = None,
    memory_bytes: int | None = None,
    in_chunks: bool = False,
    decoder: RecordDecoder = _WRAPPED,
) -> Target:
    """Read the history to its end; ``crashes`` are numbers of records after which everything but the target
    is lost. Rows that wait beyond ``memory_bytes`` go to a store. With ``in_chunks`` the snapshot comes in
    chunks. ``decoder`` is that of the records."""
    shape = plan.shape
    target = Target(contents or TableContents(len(shape.key), len(shape.rest)))
    position = 0
    for crash in (*sorted(crashes), len(history.records)):
        run = _Run(history, plan, target, tells_before, memory_bytes, in_chunks, decoder=decoder)
        run.read(position, crash)
        position = crash
    return target


def die_between_chunks(
    history: TopicHistory,
    plan: SubscribePlan,
    *,
    tells_before: bool = True,
    memory_bytes: int,
    chunks: Sequence[int],
) -> Target:
    """Read the history to its end in several processes: each dies behind so many chunks of its snapshot."""
    target = Target(TableContents(len(plan.shape.key), len(plan.shape.rest)))
    for count in chunks:
        run = _Run(history, plan, target, tells_before, memory_bytes, in_chunks=True, dies_behind=count)
        with suppress(_Died):
            run.read(0, len(history.records))
            return target
        assert not target.token
        assert not target.rows
    _Run(history, plan, target, tells_before, memory_bytes, in_chunks=True).read(0, len(history.records))
    return target


def resume(history: TopicHistory, plan: SubscribePlan, target: Target) -> None:
    """Go on from the target's token over what the history has of it."""
    end = len(history.records)
    _Run(history, plan, target, tells_before=True).read(end, end)


def require_chunk(batch: SubscriptionBatch) -> None:
    """A chunk has rows, and nothing that a consumer could store."""
    assert batch.rows
    assert batch.token is None
    assert not batch.is_snapshot
    assert not batch.is_last


class _Died(Exception):
    """A process has died."""


class _Run:
    """One process."""

    def __init__(
        self,
        history: TopicHistory,
        plan: SubscribePlan,
        target: Target,
        tells_before: bool,
        memory_bytes: int | None = None,
        in_chunks: bool = False,
        dies_behind: int = -1,
        decoder: RecordDecoder = _WRAPPED,
    ) -> None:
        self._history = history
        self._target = target
        self._key_rows = copy.deepcopy(target.key_rows) if target.token else MemoryKeyRows()
        source = SubscriptionSource("feed", tells_before, self._key_rows)
        as_of = plan.as_of or ZERO
        spill = None if memory_bytes is None else Spill(MemorySpill(), memory_bytes, least_opening_bytes=0)
        chunks = spill if in_chunks and comes_in_chunks(plan, as_of) else None
        self._subscription = Subscription(plan, as_of, source, chunks=chunks)
        start = GateStart(parts_up_to=ZERO if chunks is None else as_of)
        self._held: list[SubscriptionBatch] = []
        self._chunks_left = dies_behind
        if target.token:
            token: ResumeToken = read_token(target.token, self._subscription.fingerprint)
            self._subscription, start = resumed(plan, token, source)
        self._offsets = dict(start.offsets)
        decoders = {place.topic: decoder for place in history.partitions}
        self._gate = RowGate(decoders, history.partitions, start, spill=spill)
        self._state = ConsumerState(
            self._subscription.header, resumed=bool(target.token) or not plan.snapshot
        )
        for row in self._subscription.opening():
            assert self._state.push(row) is None

    def read(self, position: int, until: int) -> None:
        """Read again what a crash lost, then on to ``until``."""
        count = len(self._history.records) - until
        records = list(reread(self._history, position, self._offsets))
        for place, record in records[: len(records) - count]:
            self._gate.add_record(place, record)
            self._open()  # one step at a time: a crash may come before the next one
        while not count and self._open():
            pass

    def _open(self) -> bool:
        opening = self._gate.open()
        if opening is None:
            return False
        batch = self._subscription.advance(opening, self._gate.offsets())
        while batch is not None:
            if not batch.is_partial:
                self._store(batch)
                return True
            require_chunk(batch)
            for row in batch.rows:
                assert self._state.push(row) is None
            self._held.append(batch)
            self._chunks_left -= 1
            if self._chunks_left == 0:
                raise _Died
            batch = self._subscription.following()
        return True

    def _store(self, batch: SubscriptionBatch) -> None:
        target = self._target
        target.batches += [*self._held, batch]
        target.rows += [row for chunk in self._held for row in chunk.rows]
        self._held.clear()
        for row in batch.rows:
            released = self._state.push(row)
            if released is None:
                continue
            assert released.frontier == batch.frontier
            assert released.is_snapshot == batch.is_snapshot
            target.snapshots += released.is_snapshot
            target.contents.fold(released)
            target.frontiers.append(batch.frontier)
            target.states.append(target.contents.rows())
        target.rows += [row for row in batch.rows if row[1] is False]
        target.key_rows = copy.deepcopy(self._key_rows)
        target.token = "" if batch.token is None else str(batch.token)
