"""Log partitions that are read independently, and whose steps are committed long after they were read.

Beside what happens in ``partitions_apart.py``: a restart loses the steps that are not committed. A feed is
detached while such steps exist, and the last of its rows in them are lost. Rows that come while it is
detached are spooled; later the spool is written or thrown away. A feed goes on elsewhere in its next epoch:
from its marker, or on another cluster from an earlier time. So one partition may have a feed while another
one does not have it, for a step or for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.hand_log import at
from tests.simulation.partitions_apart import PartitionsApart
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.feed import AcceptedCluster, FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import Activate, Remove
from tidegate.hlc import Timestamp
from tidegate.processor.batch import ExchangeRecord, OutputRecord, PartitionCheckpoint, StepResult

_ALL = 10**9


class CommitsApart(PartitionsApart):
    """One run; a function of its arguments."""

    def __init__(self, seed: int, sides: int | None = None, count: int = 3) -> None:
        self._uncommitted: list[list[StepResult]] = [[] for _ in range(count)]
        #: The hand-off topic, by the partition that reads it.
        self._topic: list[list[ExchangeRecord]] = [[] for _ in range(count)]
        self._spools: dict[tuple[int, FeedId], list[OutputRecord]] = {}
        self._is_late = self._commits_now = False
        self._leaves = Random(f"{seed}:leaves")
        super().__init__(seed, sides, count)

    # ---- what happens

    def run(self) -> None:
        """See ``PartitionsApart``; once things calm down, every step is committed immediately."""
        self._is_late = True
        super().run()

    def _turn(self) -> None:
        self._is_late = True
        super()._turn()
        if self.rng.random() < 0.06:
            self._go_on_elsewhere()

    def _calm(self, *, with_snapshots: bool) -> bool:
        if self._is_late:
            self._is_late = False
            for number in range(self.count):
                self._commit(number, _ALL)
            self._spools.clear()
        return super()._calm(with_snapshots=with_snapshots)

    # ---- commits

    def _note_result(self, driven: Driven, result: StepResult) -> None:
        number = driven.processor.partition
        self._uncommitted[number].append(result)
        now, self._commits_now = self._commits_now, False
        self._commit(number, self.rng.choice([0, 0, 1, 2, 99]) if self._is_late and not now else _ALL)

    def _take_now(self, driven: Driven, result: StepResult) -> None:
        """Commit the step, and all steps before it, before anything else happens."""
        self._commits_now = True
        self._note_result(driven, result)

    def _commit(self, number: int, steps: int) -> None:
        driven, uncommitted = self.partitions[number], self._uncommitted[number]
        for _ in range(min(steps, len(uncommitted))):
            result = uncommitted.pop(0)
            for feed_id in list(result.outputs):
                if (number, feed_id) in self._spools:
                    self._spools[number, feed_id] += result.outputs.pop(feed_id)
            before = [len(inbox) for inbox in self._inboxes]
            super()._note_result(driven, result)
            for topic, inbox, known in zip(self._topic, self._inboxes, before, strict=True):
                topic += inbox[known:]
            driven.processor.committed(result.serial)

    def _restart(self, driven: Driven) -> None:
        number = driven.processor.partition
        if not self._is_late:
            self._commit(number, _ALL)
        self._uncommitted[number] = []
        for place in [place for place in self._spools if place[0] == number]:
            del self._spools[place]
        super()._restart(driven)
        position = driven.processor.next_hand_off
        self._inboxes[number][:] = [each for each in self._topic[number] if each.offset >= position]

    def _advance(self, checkpoint: PartitionCheckpoint) -> None:
        """Take a checkpoint. What it says of a former epoch of a feed does not count any more."""
        feeds = tuple(
            active
            for active in checkpoint.feeds
            if active.epoch == self.feeds[active.feed_id].definition.epoch
        )
        super()._advance(replace(checkpoint, feeds=feeds))

    # ---- feeds

    def _told(self, number: int, feed_id: FeedId) -> StepResult:
        self._commit(number, _ALL)
        self._commits_now = True
        return super()._told(number, feed_id)

    def _go_on_elsewhere(self) -> None:
        """Let a feed end in all partitions and begin again: at its marker, or on another cluster."""
        known = [feed_id for feed_id, untold in self._untold.items() if not untold]
        if not known:
            return
        feed_id = self.rng.choice(known)
        before, moves = self.feeds[feed_id], self.rng.random() < 0.4
        for driven in self.partitions:
            number = driven.processor.partition
            if self._leaves.random() < 0.5:
                self._commit(number, _ALL)
            self._spools.pop((number, feed_id), None)
            result = driven.control(Remove(feed_id, before.definition.epoch))
            driven.results.pop()  # `_note_result` notes it
            if self._uncommitted[number]:
                result = self._left_out(driven, feed_id, result)
            self._take_now(driven, result)
        self.feeds[feed_id] = feed = self._next_epoch(before, moves=moves)
        if not moves:
            self._given[feed_id] = {}
        self._follow(feed)

    def _left_out(self, driven: Driven, feed_id: FeedId, removed: StepResult) -> StepResult:
        """Let the sink of a feed that is forgotten take no more rows. Its rows in earlier steps are lost
        too."""
        number = driven.processor.partition
        self._uncommitted[number].append(removed)
        result = driven.processor.detach(feed_id, self._uncommitted[number])
        rows = self._withdrawn(number, feed_id)
        self._give_all(feed_id, rows[: self._leaves.randrange(len(rows) + 1)])
        return result

    def _next_epoch(self, before: Activate, *, moves: bool) -> Activate:
        epoch = FeedEpoch(before.definition.epoch + 1)
        if moves:
            start, accepted = max(self._marker(before.feed_id), before.start), before.definition.accepted
        else:
            start = self._earlier()
            accepted = AcceptedCluster(epoch, "x", start)
        options = replace(before.definition.options, cursor=start)
        definition = replace(before.definition, epoch=epoch, accepted=accepted, options=options)
        return replace(before, definition=definition, start=start)

    def _earlier(self) -> Timestamp:
        return at(self.rng.choice([0, max(self.now_s - 50, 0), max(self.now_s - 700, 0)]))

    # ---- sinks

    def _move_a_sink(self) -> None:
        """Let the sink of a feed stand still in a partition, or go on."""
        driven, feed_id = self.rng.choice(self.partitions), self.rng.choice(list(self.feeds))
        if not driven.processor.is_active(feed_id):
            return
        if feed_id in driven.processor.detached:
            self._go_on(driven, feed_id)
        else:
            self._stand_still(driven, feed_id)

    def _stand_still(self, driven: Driven, feed_id: FeedId) -> None:
        """Detach the feed. Of its rows that are not committed, only the first ones arrive, or all are kept,
        together with later rows."""
        number, processor = driven.processor.partition, driven.processor
        result = processor.detach(feed_id, self._uncommitted[number])
        rows = self._withdrawn(number, feed_id)
        if self.rng.random() < 0.5:
            self._spools[number, feed_id] = rows
            self._take_now(driven, result)
        else:
            self._give_some(feed_id, rows)
            self._take_now(driven, result)
            self._note_result(driven, processor.stall(feed_id))

    def _go_on(self, driven: Driven, feed_id: FeedId) -> None:
        """Attach the feed: what was spooled goes out or is thrown away. Or let the feed catch up."""
        number, processor = driven.processor.partition, driven.processor
        if processor.is_spooling(feed_id) and (number, feed_id) in self._spools and self.rng.random() < 0.4:
            self._commit(number, _ALL)
            if processor.is_spooling(feed_id):
                self._give_all(feed_id, self._spools.pop((number, feed_id)))
                self._note_result(driven, processor.attach(feed_id))
        elif processor.is_spooling(feed_id):
            self._give_some(feed_id, self._spools.pop((number, feed_id), []))
            self._withdrawn(number, feed_id)
            self._take_now(driven, processor.stall(feed_id))
        else:
            self._spools.pop((number, feed_id), None)
            self._withdrawn(number, feed_id)
            self._note_result(driven, processor.resume(feed_id))

    def _withdrawn(self, number: int, feed_id: FeedId) -> list[OutputRecord]:
        """Take the rows of a feed out of the steps that are not committed, and return them."""
        return [row for result in self._uncommitted[number] for row in result.outputs.pop(feed_id, [])]

    def _give_some(self, feed_id: FeedId, rows: Sequence[OutputRecord]) -> None:
        self._give_all(feed_id, rows[: self.rng.randrange(len(rows) + 1)])

    def _give_all(self, feed_id: FeedId, rows: Sequence[OutputRecord]) -> None:
        for row in rows:
            self._give(feed_id, row)
