"""A consumer of several tables at one cut, over random histories of two topics.

Its target has a table for each member and one token. A crash loses everything else.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.topic_histories import TopicHistory, reread
from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.client.consumer_state import ConsumerState
from tidegate.subscribe.client.joint_token import read_joint_token
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.joint_subscription import JointBatch, JointMember, JointSubscription
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource, resumed

#: Modes of the members; the last two are over one topic.
MODES = {
    "a": "",
    "b": "ENVELOPE UPSERT (KEY (id))",
    "c": "ENVELOPE DEBEZIUM (KEY (id))",
}
TOPIC_OF = {"a": "accounts", "b": "more", "c": "more"}


@dataclass(slots=True)
class JointTarget:
    """What was stored: all of it changes in one transaction."""

    contents: dict[str, TableContents]
    key_rows: dict[str, MemoryKeyRows]
    token: str = ""
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    frontiers: list[Timestamp] = field(default_factory=list)
    states: list[dict[str, list[tuple[Any, ...]]]] = field(default_factory=list)
    snapshots: int = 0


def members_of(history: TopicHistory) -> list[str]:
    """The members whose topics a history has."""
    topics = {place.topic for place in history.partitions}
    return [name for name, topic in TOPIC_OF.items() if topic in topics]


def part_of(history: TopicHistory, name: str) -> TopicHistory:
    """What a history has of one member's topic."""
    places = history.partitions
    return replace(
        history,
        commits=tuple(
            each for each in history.commits if places[each.key % len(places)].topic == TOPIC_OF[name]
        ),
        partitions=tuple(place for place in places if place.topic == TOPIC_OF[name]),
        records=tuple(each for each in history.records if each[0].topic == TOPIC_OF[name]),
    )


def joint_plan(name: str, bounds: str) -> SubscribePlan:
    """The plan of a member."""
    return plan_of(f"SUBSCRIBE accounts {MODES[name]} WITH (PROGRESS) {bounds}")


def consume_jointly(
    history: TopicHistory, bounds: str, crashes: Sequence[int] = (), *, tells_before: bool = True
) -> JointTarget:
    """Read the history to its end; ``crashes`` are numbers of records after which all but the target is
    lost."""
    plans = {name: joint_plan(name, bounds) for name in members_of(history)}
    target = JointTarget(
        {name: TableContents(len(each.shape.key), len(each.shape.rest)) for name, each in plans.items()},
        {name: MemoryKeyRows() for name in plans},
        rows={name: [] for name in plans},
    )
    position = 0
    for crash in (*sorted(crashes), len(history.records)):
        _JointRun(history, plans, target, tells_before).read(position, crash)
        position = crash
    return target


class _JointRun:
    """One process."""

    def __init__(
        self,
        history: TopicHistory,
        plans: Mapping[str, SubscribePlan],
        target: JointTarget,
        tells_before: bool,
    ) -> None:
        self._history = history
        self._target = target
        self._key_rows = {
            name: copy.deepcopy(target.key_rows[name]) if target.token else MemoryKeyRows() for name in plans
        }
        sources = {
            name: SubscriptionSource(f"feed of {name}", tells_before, self._key_rows[name]) for name in plans
        }
        start = GateStart()
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
            subscriptions = {
                name: Subscription(plan, plan.as_of or Timestamp(0), sources[name])
                for name, plan in plans.items()
            }
        self._offsets = dict(start.offsets)
        self._gate = RowGate(DECODERS, history.partitions, start)
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
            self._gate.take(place, record)
            opening = self._gate.open()
            batch = None if opening is None else self._joint.advance(opening, self._gate.offsets())
            if batch is not None:
                self._store(batch)

    def _store(self, batch: JointBatch[SubscriptionBatch]) -> None:
        target = self._target
        assert batch.members.keys() == target.contents.keys()
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
