"""Several subscriptions at one cut: one gate over the topics of all, so one frontier.

1. The gate's minimum is that of all partitions of all members. Rows that it releases are complete in
   each.
2. Each member takes the rows of its own topic, and makes its batch as if it were alone.
3. The joint batch has a batch of each member. All have the same frontier, and each is complete up to it; so
   are the tokens, which are stored as one.

`Cohort` does the same for subscriptions from elsewhere, which have a frontier each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidegate.subscribe.client.joint_token import JointToken
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import GateOpening
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import Frontier

BatchT = TypeVar("BatchT", bound=SubscriptionBatch)


@dataclass(frozen=True, slots=True)
class JointBatch(Generic[BatchT]):
    """What the members of a joint subscription get at a time.

    Attributes:
        frontier: where all of them stand.
        members: the batch of each, by its name; some may have no rows.
        is_snapshot: whether the joint snapshot is complete with this batch.
        token: to resume all of them after this batch; ``None`` where only a snapshot can begin again.
        is_last: whether UP TO is reached.
        is_partial: whether it is a chunk of a snapshot; one member alone can have its snapshot in chunks.
    """

    frontier: Frontier
    members: Mapping[str, BatchT]
    is_snapshot: bool
    token: JointToken | None
    is_last: bool
    is_partial: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class JointMember:
    """One member: its rows are in ``topic``, its markers as well or in ``marker_topic``."""

    subscription: Subscription
    topic: str
    marker_topic: str = ""


class JointSubscription:
    """The members of one joint subscription, by their names. After an error each call raises the same error.

    All members begin at one AS OF and end at one UP TO. ``ValueError`` for no members.
    """

    __slots__ = ("_first_error", "_members", "_topics")

    def __init__(self, members: Mapping[str, JointMember]) -> None:
        if not members:
            raise ValueError("a joint subscription without members would never give anything")
        self._members = dict(members)
        self._topics = {member.topic for member in members.values()}
        self._first_error = FirstError()

    def advance(
        self, opening: GateOpening, offsets: Mapping[FeedPartition, int]
    ) -> JointBatch[SubscriptionBatch] | None:
        """Return the joint batch that an opening of the gate gives; ``None`` up to AS OF, and after UP TO.

        ``offsets`` are the gate's (and its side markers') after the opening. Raises what a member raises.
        """
        with self._first_error:
            return self._advance(opening, offsets)

    def following(self) -> JointBatch[SubscriptionBatch] | None:
        """Return the next chunk of the snapshot that ``advance`` began with; ``None`` behind the last one."""
        with self._first_error:
            found = {name: member.subscription.following() for name, member in self._members.items()}
            return self._joined({name: batch for name, batch in found.items() if batch is not None})

    def _advance(
        self, opening: GateOpening, offsets: Mapping[FeedPartition, int]
    ) -> JointBatch[SubscriptionBatch] | None:
        rows = dict.fromkeys(self._topics, opening.rows)
        if len(self._topics) > 1:
            rows = {topic: opening.rows.of_topic(topic) for topic in self._topics}
        batches = {}
        for name, member in self._members.items():
            own = {member.topic, member.marker_topic}
            batch = member.subscription.advance(
                GateOpening(opening.frontier, rows[member.topic], opening.decode),
                {place: offset for place, offset in offsets.items() if place.topic in own},
            )
            if batch is not None:
                batches[name] = batch
        return self._joined(batches)

    def _joined(self, batches: Mapping[str, SubscriptionBatch]) -> JointBatch[SubscriptionBatch] | None:
        if not batches:
            return None
        tokens = {name: each.token for name, each in batches.items() if each.token is not None}
        some = next(iter(batches.values()))
        return JointBatch(
            some.frontier,
            batches,
            any(batch.is_snapshot for batch in batches.values()),
            JointToken(tokens) if len(tokens) == len(self._members) else None,
            some.is_last,
            is_partial=some.is_partial,
        )
