"""Several subscriptions at one cut: one gate over the topics of all, so one frontier.

1. The gate's minimum is that of all partitions of all members. So the rows that the gate releases are
   complete in every member.
2. Each member takes the rows of its own topic, and makes its batch as if it were alone.
3. The joint batch has a batch of each member. All these batches have the same frontier, and are complete up
   to it. Their tokens have this frontier too, and are stored as one joint token.
4. If the snapshot comes in chunks, the members give their chunks one after the other. A joint chunk has one
   chunk of one member, so memory holds only one chunk. After the last chunk comes the batch of step 3.

`Cohort` does the same for subscriptions that are received from servers. Each of those has a frontier of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """One batch of a joint subscription: a batch of each member.

    Attributes:
        frontier: the frontier that all members have reached.
        members: the batch of each member, by the member's name; a batch may have no rows. A joint chunk has
            only the batch of one member.
        is_snapshot: whether the joint snapshot is complete with this batch.
        token: the token with which all members resume after this batch; ``None`` if they can only begin again
            with a snapshot.
        is_last: whether UP TO is reached.
        is_partial: whether it is a chunk of a joint snapshot, and more batches of this snapshot follow. Such
            a chunk has no token.
    """

    frontier: Frontier
    members: Mapping[str, BatchT]
    is_snapshot: bool
    token: JointToken | None
    is_last: bool
    is_partial: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class JointMember:
    """One member. Its rows are in ``topic``. Its markers are in ``marker_topic``, or in ``topic`` if that is
    empty."""

    subscription: Subscription
    topic: str
    marker_topic: str = ""


class JointSubscription:
    """The members of one joint subscription, by their names. After an error each call raises the same error.

    All members begin at one AS OF and end at one UP TO. Raises ``ValueError`` if there are no members.
    """

    __slots__ = ("_first_error", "_following", "_members", "_topics")

    def __init__(self, members: Mapping[str, JointMember]) -> None:
        if not members:
            raise ValueError("a joint subscription without members would never give anything")
        self._members = dict(members)
        self._topics = {member.topic for member in members.values()}
        self._following: Iterator[JointBatch[SubscriptionBatch]] = iter(())
        self._first_error = FirstError()

    def advance(
        self, opening: GateOpening, offsets: Mapping[FeedPartition, int]
    ) -> JointBatch[SubscriptionBatch] | None:
        """Return the first joint batch that an opening of the gate gives. ``following`` returns the other
        ones.

        Returns ``None`` until the frontier is above AS OF or has reached UP TO, and again after the batch
        that reached UP TO. ``offsets`` are the offsets of the gate, and of its side markers, after the
        opening. Raises what a member raises.
        """
        with self._first_error:
            self._following = self._batches(opening, offsets)
            return next(self._following, None)

    def following(self) -> JointBatch[SubscriptionBatch] | None:
        """Return the next batch of the last opening, such as a chunk of the snapshot; ``None`` after the
        last one.
        """
        with self._first_error:
            return next(self._following, None)

    def _batches(
        self, opening: GateOpening, offsets: Mapping[FeedPartition, int]
    ) -> Iterator[JointBatch[SubscriptionBatch]]:
        rows = dict.fromkeys(self._topics, opening.rows)
        if len(self._topics) > 1:
            rows = {topic: opening.rows.of_topic(topic) for topic in self._topics}
        for member in self._members.values():
            own = {member.topic, member.marker_topic}
            member.subscription.begin(
                GateOpening(opening.frontier, rows[member.topic], opening.decode),
                {place: offset for place, offset in offsets.items() if place.topic in own},
            )
        whole: dict[str, SubscriptionBatch] = {}
        for name, member in self._members.items():
            while (batch := member.subscription.following()) is not None:
                if batch.is_partial:
                    yield JointBatch(batch.frontier, {name: batch}, False, None, False, is_partial=True)
                else:
                    whole[name] = batch
        if whole:
            yield self._joined(whole)

    def _joined(self, batches: Mapping[str, SubscriptionBatch]) -> JointBatch[SubscriptionBatch]:
        tokens = {name: each.token for name, each in batches.items() if each.token is not None}
        some = next(iter(batches.values()))
        return JointBatch(
            some.frontier,
            batches,
            any(batch.is_snapshot for batch in batches.values()),
            JointToken(tokens) if len(tokens) == len(self._members) else None,
            some.is_last,
        )
