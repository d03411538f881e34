"""The consumer group, and each member's consumer, as the agents see them through Faust.

A rebalance asks every member to release what it has, waits for them for a while, and hands out partitions
anew. Members that do not answer in time are thrown out: they learn of it later, and work on until then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from faust.types import TP

from tests.simulation.clients import Network
from tests.simulation.kafka import Broker, Partition
from tests.simulation.scheduler import Action, Process, Scheduler
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.kafka.fetched import FetchedBatch

_IDLE_S: Final = 0.05
_COMMIT_S: Final = 2.0


@dataclass(slots=True, eq=False)
class _Flow:
    """One partition as a member's consumer has it; ``seeks`` counts how often its position was moved."""

    partition: Partition
    position: int = 0
    open: bool = False
    halted: bool = False
    seeks: int = 0
    fetching: bool = False
    on_the_way: deque[FetchedBatch] = field(default_factory=deque)


class Member:
    """One process's consumer: ``tidegate.worker.shell.Batches``, and its place in the group."""

    def __init__(
        self,
        process: Process,
        broker: Broker,
        network: Network,
        assignment: Assignment,
        seed: str,
        batch_records: int,
        duplicates: float,
    ) -> None:
        self.process = process
        self.assignment = assignment
        self.generation = -1
        self.joined = False
        self._broker = broker
        self._network = network
        self._scheduler = process.scheduler
        self._rng = Random(f"{seed}:consumer:{process.name}")
        self._flows: dict[TP, _Flow] = {}
        self._completed: dict[TP, int] = {}
        self._batch_records = batch_records
        self._duplicates = duplicates
        self._may_commit: Callable[[Member], bool] = lambda _: False

    # ---- what the agents use

    async def open_partition(self, tp: TP, offset: int) -> None:
        await self._request()
        flow = self._flows.get(tp)
        if flow is None:
            return  # the partition is not this member's any more
        flow.position, flow.open, flow.halted = offset, True, False
        flow.seeks += 1
        if self._rng.random() < 0.8:
            flow.on_the_way.clear()
        self._fetch_soon(flow, 0.0)
        await self._request()

    def halt_partition(self, tp: TP) -> None:
        flow = self._flows.get(tp)
        if flow is not None:
            flow.halted = True

    def continue_partition(self, tp: TP) -> None:
        flow = self._flows.get(tp)
        if flow is not None:
            flow.halted = False
            self._fetch_soon(flow, 0.0)

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        await self._request()
        return {tp: self._broker.partition(*tp).start for tp in partitions}

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        await self._request()
        found = {tp: self._broker.partition(*tp).stable_end for tp in partitions}
        await self._request()
        return found

    async def committed_or_earliest(self, tp: TP) -> int:
        await self._request()
        place = self._broker.partition(*tp)
        committed = self._broker.group.get((tp.topic, tp.partition), place.start)
        return committed if place.start <= committed <= place.stable_end else place.start

    def completed(self, tp: TP, offset: int) -> None:
        self._completed[tp] = offset

    async def leave(self, group: Group) -> None:
        """Leave as a worker that stops: commit what is completed, and tell the group."""
        await self._request()
        self._commit_now()
        await self._request()
        group.leave(self)
        await self._request()

    async def _request(self) -> None:
        await asyncio.sleep(self._network.delay())

    # ---- fetching

    def _fetch_soon(self, flow: _Flow, pause: float) -> None:
        if not flow.fetching:
            flow.fetching = True
            self._scheduler.after(pause + self._network.delay(), lambda: self._fetch(flow), self.process)

    def _fetch(self, flow: _Flow) -> None:
        flow.fetching = False
        if not flow.open or flow.halted or flow not in self._flows.values():
            return
        start = flow.position
        most = self._rng.randint(1, self._batch_records)
        entries, flow.position = flow.partition.read(start, most)
        if flow.position != start:
            place = flow.partition
            batch = FetchedBatch(place.topic, place.number, start, flow.position, place.end, entries)
            flow.on_the_way.append(batch)
            if self._network.happens(self._duplicates):
                flow.on_the_way.append(batch)
                self._deliver_soon(flow)
            self._deliver_soon(flow)
        full = len(entries) == most
        self._fetch_soon(flow, 0.0 if full else self._rng.random() * _IDLE_S)

    def _deliver_soon(self, flow: _Flow) -> None:
        self._scheduler.after(self._network.delay(), lambda: self._deliver(flow), self.process)

    def _deliver(self, flow: _Flow) -> None:
        if flow.on_the_way:
            batch = flow.on_the_way.popleft()
            self.process.loop.call_soon(self._hand_over, batch)

    def _hand_over(self, batch: FetchedBatch) -> None:
        self.assignment.holders[batch.topic].receive_batch(batch)

    # ---- the group's side

    def assign(self, partitions: Iterable[TP], generation: int, may_commit: Callable[[Member], bool]) -> None:
        """Take the partitions that the group hands out. Their records come once somebody opens them."""
        self.generation = generation
        self._may_commit = may_commit
        self._flows = {tp: _Flow(self._broker.partition(*tp)) for tp in partitions}
        self._completed.clear()
        self.process.loop.call_soon(self.assignment.take_up, list(self._flows))
        self._scheduler.after(self._rng.random() * _COMMIT_S, self._commit, self.process)

    async def release(self) -> None:
        """Give the partitions back to the group."""
        await self.assignment.release()
        self._commit_now()
        self._flows = {}

    def _commit(self) -> None:
        self._commit_now()
        if self._flows:
            self._scheduler.after(_COMMIT_S, self._commit, self.process)

    def _commit_now(self) -> None:
        completed, self._completed = self._completed, {}
        if self._may_commit(self):
            self._broker.group |= {(tp.topic, tp.partition): offset for tp, offset in completed.items()}


class Group:
    """The group: it decides which member has which partitions. ``together`` are topics whose equal numbers go
    to one member."""

    def __init__(
        self, scheduler: Scheduler, broker: Broker, seed: int, session_s: float, patience_s: float
    ) -> None:
        self.generation = 0
        self.members: list[Member] = []
        self.rebalances = 0
        self._scheduler = scheduler
        self._broker = broker
        self._rng = Random(f"{seed}:group")
        self._session_s = session_s
        self._patience_s = patience_s
        self._preparing = False
        self._asked: set[Member] = set()
        self._joined: set[Member] = set()
        self._again = False
        self._when_shared: list[Action] = []

    def when_shared(self, then: Action) -> None:
        """Call ``then`` once, when the group decides next who has which partitions, a short time before it
        hands them out."""
        self._when_shared.append(then)

    def join(self, member: Member) -> None:
        """Add a process that wants to be a member."""
        member.joined = True
        self.members.append(member)
        member.process.on_end.append(lambda: self._gone(member))
        self.rebalance()

    def leave(self, member: Member) -> None:
        """Remove a member that has said that it stops: nobody waits for it."""
        member.joined = False
        self._forget(member)
        self._look(self.generation)

    def left_behind(self, member: Member) -> None:
        """Throw out a member of which nothing was heard for a session. The member does not know it."""
        if member in self.members and member.process.alive and member.process.paused:
            self.members.remove(member)
            self._joined.discard(member)
            self._asked.discard(member)
            self.rebalance()

    def come_back(self, member: Member) -> None:
        """Tell a member that it was thrown out; it joins again."""
        if member.process.alive and member.joined and member not in self.members:
            self.members.append(member)
            self.rebalance(late=member)

    def _gone(self, member: Member) -> None:
        self._scheduler.after(self._session_s * self._rng.random(), lambda: self._forget(member))

    def _forget(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
            self._joined.discard(member)
            self.rebalance()

    def rebalance(self, late: Member | None = None) -> None:
        """Take everything back, and hand it out anew. A ``late`` member is perhaps not asked to release
        first."""
        if self._preparing:
            if late is not None or self._joined:
                self._again = True
            for member in self.members:
                self._ask(member, self.generation)
            return
        self._preparing, self._asked, self._joined = True, set(), set()
        self.generation += 1
        self.rebalances += 1
        generation = self.generation
        for member in self.members:
            if member is late and self._rng.random() < 0.5:
                self._joined.add(member)  # it missed the last one, and joins this one at once
            else:
                self._ask(member, generation)
        self._scheduler.after(self._patience_s, lambda: self._give_up(generation))
        self._look(generation)

    def _ask(self, member: Member, generation: int) -> None:
        """Ask a member to release, once in a generation. A member that is done too late joins anew."""

        async def release() -> None:
            await member.release()
            if self._preparing and generation == self.generation and member in self.members:
                self._joined.add(member)
                self._look(generation)
            elif member not in self.members:
                self.come_back(member)
            else:
                self.rebalance()

        if member in self._asked or member in self._joined:
            return
        self._asked.add(member)
        loop = member.process.loop
        delay = self._rng.random() * 0.3
        self._scheduler.after(delay, lambda: loop.call_soon(loop.create_task, release()), member.process)

    def _look(self, generation: int) -> None:
        if self._preparing and generation == self.generation and self._joined >= set(self.members):
            self._assign()

    def _give_up(self, generation: int) -> None:
        """Throw out the members that have not released in time."""
        if not self._preparing or generation != self.generation:
            return
        for member in [each for each in self.members if each not in self._joined]:
            self.members.remove(member)
            self._scheduler.after(self._rng.random(), lambda m=member: self.come_back(m), member.process)  # type: ignore[misc]
        self._assign()

    def _assign(self) -> None:
        self._preparing = False
        members = [member for member in self.members if member.process.alive]
        if members:
            for member, places in self._shares(members).items():
                generation = self.generation
                self._scheduler.after(
                    self._rng.random() * 0.05,
                    lambda m=member, p=places, g=generation: self._hand_out(m, p, g),  # type: ignore[misc]
                    member.process,
                )
        told, self._when_shared = self._when_shared, []
        for then in told:
            then()
        if self._again:
            self._again = False
            self._scheduler.after(self._rng.random() * 0.2, self.rebalance)

    def _hand_out(self, member: Member, places: list[TP], generation: int) -> None:
        if generation == self.generation:
            member.assign(places, generation, lambda m: m.generation == self.generation and m in self.members)

    def _shares(self, members: list[Member]) -> dict[Member, list[TP]]:
        """Return the partitions of each member. Of topics with as many partitions as the log, partitions of
        the same number go to one member."""
        topics = sorted(members[0].assignment.holders)
        shares: dict[Member, list[TP]] = {member: [] for member in members}
        sizes = {topic: len(self._broker.topics[topic].partitions) for topic in topics}
        log = next(topic for topic in topics if topic.endswith("raftlog"))
        order = list(members)
        self._rng.shuffle(order)
        turn = 0
        for number in range(sizes[log]):
            for topic in topics:
                if self._goes_with(topic, log, sizes):
                    shares[order[turn % len(order)]].append(TP(topic, number))
            turn += 1
        for topic in topics:
            if not self._goes_with(topic, log, sizes):
                for number in range(sizes[topic]):
                    shares[order[turn % len(order)]].append(TP(topic, number))
                    turn += 1
        return shares

    @staticmethod
    def _goes_with(topic: str, log: str, sizes: Mapping[str, int]) -> bool:
        return sizes[topic] == sizes[log] and not topic.endswith(("-acks", "-checkpoints"))
