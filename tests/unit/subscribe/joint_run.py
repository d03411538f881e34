"""A consumer of several tables at one cut, over random histories of two topics.

Its target has a table for each member and one token. A crash loses everything else.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.subscribe.consumer_run import DECODERS, plan_of, require_chunk
from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tests.unit.subscribe.topic_histories import TopicHistory, reread
from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.client.consumer_state import ConsumerState
from tidegate.subscribe.client.joint_token import read_joint_token
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.joint_subscription import JointBatch, JointMember, JointSubscription
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.subscription import (
    Subscription,
    SubscriptionBatch,
    SubscriptionSource,
    comes_in_chunks,
    resumed,
    takes_parts,
)

#: Modes of the members; the last two are over one topic.
MODES = {
    "a": "",
    "b": "ENVELOPE UPSERT (KEY (id))",
    "c": "ENVELOPE DEBEZIUM (KEY (id))",
}
TOPIC_OF = {"a": "accounts", "b": "more", "c": "more"}


@dataclass(slots=True)
class JointTarget:
    """The target of a joint subscription: all of it changes in one transaction."""

    contents: dict[str, TableContents]
    key_rows: dict[str, MemoryKeyRows]
    token: str = ""
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    frontiers: list[Timestamp] = field(default_factory=list)
    states: list[dict[str, list[tuple[Any, ...]]]] = field(default_factory=list)
    snapshots: int = 0
    chunks: int = 0


def members_of(history: TopicHistory) -> list[str]:
    """The members whose topics a history has."""
    topics = {place.topic for place in history.partitions}
    return [name for name, topic in TOPIC_OF.items() if topic in topics]


def part_of(history: TopicHistory, name: str) -> TopicHistory:
    """Return what a history has of one member's topic."""
    places = history.partitions
    return replace(
        history,
        commits=tuple(
            each for each in history.commits if places[each.key % len(places)].topic == TOPIC_OF[name]
        ),
        partitions=tuple(place for place in places if place.topic == TOPIC_OF[name]),
        records=tuple(each for each in history.records if each[0].topic == TOPIC_OF[name]),
    )


def joint_plan(name: str, bounds: str, modes: Mapping[str, str] = MODES) -> SubscribePlan:
    """The plan of a member."""
    return plan_of(f"SUBSCRIBE accounts {modes[name]} WITH (PROGRESS) {bounds}")


def consume_jointly(
    history: TopicHistory,
    bounds: str,
    crashes: Sequence[int] = (),
    *,
    tells_before: bool = True,
    modes: Mapping[str, str] = MODES,
    chunk_bytes: int | None = None,
    deaths: Sequence[int] = (),
) -> JointTarget:
    """Read the history to its end; ``crashes`` are numbers of records after which all but the target is
    lost.

    With ``chunk_bytes`` the joint snapshot comes in chunks. Before that, for each of ``deaths``, a process
    reads from the beginning and dies behind so many chunks.
    """
    plans = {name: joint_plan(name, bounds, modes) for name in members_of(history)}
    target = JointTarget(
        {name: TableContents(len(each.shape.key), len(each.shape.rest)) for name, each in plans.items()},
        {name: MemoryKeyRows() for name in plans},
        rows={name: [] for name in plans},
    )
    for count in deaths:
        run = _JointRun(history, plans, target, tells_before, chunk_bytes, dies_behind=count)
        with suppress(_Died):
            run.read(0, len(history.records))
            return target
        assert not target.token
        assert not any(target.rows.values())
    position = 0
    for crash in (*sorted(crashes), len(history.records)):
        _JointRun(history, plans, target, tells_before, chunk_bytes).read(position, crash)
        position = crash
    return target


class _Died(Exception):
    """A process has died."""


def _in_chunks(plans: Mapping[str, SubscribePlan], as_of: Timestamp, tells_before: bool) -> bool:
    """Whether a joint snapshot can come in chunks, as `shared_reading` decides it."""
    every = all(takes_parts(plan, as_of, tells_before=tells_before) for plan in plans.values())
    return every and any(comes_in_chunks(plan, as_of) for plan in plans.values())


class _JointRun:
    """One process."""

    def __init__(
        self,
        history: TopicHistory,
        plans: Mapping[str, SubscribePlan],
        target: JointTarget,
        tells_before: bool,
        chunk_bytes: int | None = None,
        dies_behind: int = -1,
    ) -> None:
        self._chunks_left = dies_behind
        self._held: list[tuple[str, SubscriptionBatch]] = []
        self._history = history
        self._target = target
        self._key_rows = {
            name: copy.deepcopy(target.key_rows[name]) if target.token else MemoryKeyRows() for name in plans
        }
        sources = {
            name: SubscriptionSource(f"feed of {name}", tells_before, self._key_rows[name]) for name in plans
        }
        start = GateStart()
        spill = None if chunk_bytes is None else Spill(MemorySpill(), chunk_bytes, least_opening_bytes=0)
        if target.token:
            prints = {name: fingerprint(plan, sources[name].name) for name, plan in plans.items()}
            token = read_joint_token(target.token, prints)
            goes_on = {name: resumed(plans[name], token.members[name], sources[name]) for name in plans}
            subscriptions = {name: subscription for name, (subscription, _) in goes_on.items()}
            offsets: dict[Any, int] = {}
            for _, own in goes_on.values():
                offsets |= own.offsets
                start = GateStart(own.delivered, offsets)
        else:
            as_of = next(iter(plans.values())).as_of or Timestamp(0)
            chunks = None if spill is None or not _in_chunks(plans, as_of, tells_before) else spill
            if chunks is not None:
                start = GateStart(parts_up_to=as_of)
            subscriptions = {
                name: Subscription(plan, as_of, sources[name], chunks=chunks, chunks_apart=True)
                for name, plan in plans.items()
            }
        self._offsets = dict(start.offsets)
        self._gate = RowGate(DECODERS, history.partitions, start, spill=spill)
        self._topics = {TOPIC_OF[name] for name in plans}
        self._joint = JointSubscription(
            {name: JointMember(each, TOPIC_OF[name]) for name, each in subscriptions.items()}
        )
        self._states = {
            name: ConsumerState(each.header, resumed=bool(target.token))
            for name, each in subscriptions.items()
        }
        for name, each in subscriptions.items():
            for row in each.opening():
                assert self._states[name].push(row) is None

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
        batch = self._joint.advance(opening, self._gate.offsets())
        while batch is not None:
            if batch.is_partial:
                self._hold(batch)
            else:
                self._store(batch)
            batch = self._joint.following()
        return True

    def _hold(self, chunk: JointBatch[SubscriptionBatch]) -> None:
        assert (chunk.token, chunk.is_snapshot, chunk.is_last) == (None, False, False)
        ((name, member),) = chunk.members.items()
        require_chunk(member)
        self._held.append((name, member))
        self._chunks_left -= 1
        if self._chunks_left == 0:
            raise _Died

    def _store(self, batch: JointBatch[SubscriptionBatch]) -> None:
        target = self._target
        assert batch.members.keys() == target.contents.keys()
        for name, chunk in self._held:
            assert all(self._states[name].push(row) is None for row in chunk.rows)
            target.rows[name] += chunk.rows
        target.chunks += len(self._held)
        self._held.clear()
        for name, member in batch.members.items():
            assert member.frontier == batch.frontier
            assert member.is_snapshot == batch.is_snapshot
            released = [self._states[name].push(row) for row in member.rows]
            for each in released:
                if each is not None:
                    assert each.frontier == batch.frontier
                    target.contents[name].fold(each)
            target.rows[name] += [row for row in member.rows if row[1] is False]
        if batch.token is not None and not batch.is_last:
            told = {name: dict(each.offsets) for name, each in batch.token.members.items()}
            assert all(place.topic == TOPIC_OF[name] for name, places in told.items() for place in places)
            assert {place: at for places in told.values() for place, at in places.items()} == {
                place: at for place, at in self._gate.offsets().items() if place.topic in self._topics
            }
        target.snapshots += batch.is_snapshot
        target.frontiers.append(batch.frontier)
        target.states.append({name: each.rows() for name, each in target.contents.items()})
        target.key_rows = copy.deepcopy(self._key_rows)
        target.token = "" if batch.token is None else str(batch.token)
