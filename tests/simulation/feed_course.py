"""Feeds that come and go in the middle of a history: what each one is, and how it begins and ends.

It is what the jobs agent does (``tidegate.changefeed.lifecycle.registration``): a feed is registered in every
partition, activated there with one start for all, and removed; each partition takes the messages up when it
has its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from sim.log.history import HistoryVersion, Mutated
from tests.feeds import activation
from tests.logs import BASE_NS
from tests.simulation.feed_judge import BrokenPromise, FeedJudge
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    Register,
    Registered,
    Remove,
    Removed,
)
from tidegate.hlc import Timestamp
from tidegate.rows import TableDescriptor


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """A feed that is created at one turn, and removed at another or never.

    ``cursor`` is the share of the history until its creation that it passes over; ``None`` begins at the
    present. ``first_table`` leaves out the other tables, should there be any.
    """

    begins: int
    ends: int | None
    scan: InitialScan
    cursor: float | None
    previous: bool
    first_table: bool


def draw_feeds(rng: Random, count: int, turns: int) -> list[FeedPlan]:
    """Draw so many feeds with different starts; some begin together."""
    begins = [rng.randrange(turns) for _ in range(count)]
    return [
        FeedPlan(
            begins=(begin := rng.choice(begins)),
            ends=rng.randrange(begin, 2 * turns) if rng.random() < 0.4 else None,
            scan=rng.choice((InitialScan.NO, InitialScan.YES, InitialScan.YES, InitialScan.ONLY)),
            cursor=rng.choice((None, 0.0, rng.random(), rng.random(), 1.0)),
            previous=rng.random() < 0.3,
            first_table=rng.random() < 0.3,
        )
        for _ in range(count)
    ]


class FeedCourse:
    """One feed from its creation to its end. ``messages`` are those of the control topic."""

    def __init__(
        self,
        plan: FeedPlan,
        number: int,
        versions: Sequence[TableDescriptor],
        partitions: int,
        mutations: Sequence[Mutated] = (),
    ) -> None:
        self._mutations = mutations
        self.plan = plan
        self.id = FeedId(f"feed{number}")
        self._versions = versions
        tables = tuple({table.id: table for table in versions}.values())
        self._tables = tables[:1] if plan.first_table else tables
        self._partitions = partitions
        self._activate: Activate | None = None
        self._registered: dict[int, Registered] = {}
        self._removed: set[int] = set()
        self._is_told = False  # to be forgotten
        self.messages: list[ControlMessage] = []
        self.judge: FeedJudge | None = None
        self.ended = False
        #: Set once nobody can write its markers any more: after that nobody reads what checkpoints say of it.
        self.fenced = False
        self.failed = ""

    def create(self, history: list[HistoryVersion], now: Timestamp) -> None:
        """Register the feed everywhere. Its cursor is the very timestamp of a version, or the present."""
        cursor = None
        if self.plan.cursor == 1.0:
            cursor = now
        elif self.plan.cursor is not None:
            at = int(self.plan.cursor * len(history))
            cursor = history[at].timestamp if at < len(history) else Timestamp(BASE_NS)
        options = FeedOptions(
            updated=True,
            resolved_interval_ns=0,
            diff=self.plan.previous,
            topic_in_value=self.plan.previous,  # it has the name that the table had when the feed was created
            topic_prefix=f"{self.id}-",
            initial_scan=self.plan.scan,
            cursor=cursor,
        )
        self._activate = activation(self._tables, options, feed_id=self.id)
        self.messages.append(Register(self._activate.definition))

    def end(self) -> None:
        """Let the feed end: it is dropped, or has failed (step E1 of docs/protocols/ends-of-feeds.md)."""
        self.ended = True

    def fence(self) -> None:
        """Shut out the writer of its markers, then have every partition forget the feed (steps E2 and E3)."""
        if not self.fenced:
            self.fenced = True
            self.remove()

    def remove(self) -> None:
        """Have every partition forget the feed."""
        if self._activate is not None and not self._is_told:
            self._is_told = True
            self.messages.append(Remove(self.id, self._activate.definition.epoch))

    def note_ack(self, ack: Ack) -> None:
        """Note the answer of a partition."""
        match ack:
            case Registered():
                self._registered[ack.partition] = ack
                if len(self._registered) == self._partitions and self.judge is None:
                    self._begin()
            case Active():
                pass
            case Failed():
                if not self.ended:
                    self.failed = ack.reason
                    self.end()
            case Removed():
                self._removed.add(ack.partition)

    def _begin(self) -> None:
        assert self._activate is not None
        cursor = self._activate.definition.options.cursor
        start = cursor or max(ack.highest for ack in self._registered.values())
        activate = Activate(self._activate.definition, start, self._activate.targets)
        self.judge = FeedJudge(activate, self._versions, self._mutations)
        if not self.ended:
            self.messages.append(activate)

    def is_removed(self, partition: int) -> bool:
        """Whether a partition has forgotten the feed."""
        return partition in self._removed

    def judge_of(self, partition: int) -> FeedJudge:
        """Return the judge of what a partition says of the feed now."""
        if self.judge is None or partition in self._removed:
            raise BrokenPromise(f"partition {partition} emits {self.id}, which is not active there")
        return self.judge
