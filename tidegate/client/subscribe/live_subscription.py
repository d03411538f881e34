"""A subscription of a feed's table on Kafka: reads its topic, and gives batches.

1. The table's columns come from the log's descriptors, its topic from the feed (`feed_catalog`).
2. AS OF is chosen from what the topic can still answer (`feed_history`), or from a token, whose offsets must
   still be there.
3. Records are read partition by partition (`feed_reader`) and given to the gate. Partitions that are far
   ahead are paused (`partition_pauses`).
4. When the gate opens, the subscription makes a batch of what it lets through.
5. The batch's token has the offsets of the gate, so a resume reads what waits again.

Failure cases: a crash before the consumer has stored a token repeats the batch, which is the same rows
again; a crash after it repeats nothing. Between 2 and 3 retention may delete what is to be read: step 3 then
ends with ``HistoryLost``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.subscribe.collector_pause import collector_paused
from tidegate.client.subscribe.durable_key_rows import open_key_rows
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.feed_reader import FeedReader, PartitionRecords
from tidegate.client.subscribe.partition_pauses import PartitionPauses
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.client.resume_token import read_token
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.side_markers import SideMarkers
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.subscription import (
    Subscription,
    SubscriptionBatch,
    SubscriptionSource,
    needs_key_rows,
    resumed,
)
from tidegate.subscribe.updates.update import RowValues

_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """How a subscription gets on.

    Attributes:
        delivered: every row at or below it was delivered.
        waiting_rows: rows that wait for other partitions.
        paused: partitions that are not read while others catch up.
        repeats: rows that came again and were dropped.
        retention_margin: how many records lie between what a resume would read and what is deleted, in the
            partition where they are fewest.
    """

    delivered: Timestamp
    waiting_rows: int
    paused: tuple[FeedPartition, ...]
    repeats: int
    retention_margin: int


class LiveSubscription:
    """One subscription. Iterate over it, or call ``next``; close it, or use it in a ``with``.

    ``plan`` is of ``table``. ``token`` is the text of a batch's token: the subscription goes on behind that
    batch. ``key_table`` is a directory for the rows by key, which a subscription needs whose records do not
    tell the row before. Without one they are in memory, and a resume is refused.

    Attributes:
        plan: what the statement means for the table.
        as_of: where it began.
        opening: the rows before all batches: with PROGRESS a progress row at ``as_of``.

    Raises ``HistoryLost``, ``TokenRefused``, ``SubscribeStatementError`` for bounds that cross,
    ``InputError`` for topics that do not fit, ``BrokerUnavailable`` when Kafka does not answer.
    """

    def __init__(
        self,
        table: SubscribableTable,
        plan: SubscribePlan,
        token: str = "",
        key_table: Path | None = None,
        *,
        track_keys: bool = False,
    ) -> None:
        history = FeedHistory.now(table)
        topics = sorted({place.topic for place in (*history.rows, *history.markers)})
        ids = open_admin(table.connection, table.connection.timeout_s).ids(topics)
        name = f"{table.feed.feed_id}/{ids[table.target.topic]}"
        self._table = table
        self.plan = plan
        self._ended = False
        with ExitStack() as opened:  # closes what was opened if the rest fails
            self._rows = None if key_table is None else open_key_rows(key_table, name, plan.relation)
            if self._rows is not None:
                opened.callback(self._rows.close)
            source = SubscriptionSource(name, table.tells_before, self._rows)
            if token:
                start = self._resume(history, source, token)
            else:
                start = self._begin(history, source, track_keys=track_keys)
            self._gate = RowGate({table.target.topic: table.decoder()}, history.rows, start)
            side = table.feed.resolved_topic
            self._side = SideMarkers(side, history.rows, self._gate) if side else None
            self._pauses = PartitionPauses(self._gate, history.rows)
            starts = {place: start.offsets.get(place, 0) for place in (*history.rows, *history.markers)}
            self._reader = FeedReader(table.connection, starts, ids)
            opened.pop_all()
        self.opening: tuple[RowValues, ...] = tuple(self._subscription.opening())

    def _resume(self, history: FeedHistory, source: SubscriptionSource, token: str) -> GateStart:
        read = read_token(token, fingerprint(self.plan, source.name))
        history.require(read)
        if self._rows is not None:
            self._rows.go_back_to(read.frontier)
        self.as_of = read.as_of
        self._subscription, start = resumed(self.plan, read, source)
        return start

    def _begin(self, history: FeedHistory, source: SubscriptionSource, *, track_keys: bool) -> GateStart:
        plan = self.plan
        from_beginning = plan.snapshot or needs_key_rows(plan, tells_before=source.tells_before)
        self.as_of = history.choose_as_of(plan, from_beginning=from_beginning)
        offsets = history.starts(self.as_of, from_beginning=from_beginning)
        if self._rows is not None:
            self._rows.start_over()
        start = GateStart(ZERO if from_beginning else self.as_of, offsets)
        self._subscription = Subscription(plan, self.as_of, source, start=start, track_keys=track_keys)
        return start

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row."""
        return self._subscription.header

    @property
    def ended(self) -> bool:
        """Whether UP TO is reached."""
        return self._ended

    def next(self, timeout_s: float | None = None) -> SubscriptionBatch | None:
        """Return the next batch; ``None`` at the end, and when none has come within ``timeout_s``.

        A batch may have no rows. Raises what `RowGate` and `Subscription` raise, ``HistoryLost`` where
        retention has overtaken the subscription, ``ObjectDropped`` for a topic that was deleted; each later
        call raises the same.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ended:
            batch = self._opened()
            if batch is not None:
                self._ended = batch.is_last
                return batch
            left = _POLL_S if until is None else min(_POLL_S, until - time.monotonic())
            if left < 0:
                return None
            self._read(left)
        return None

    def __iter__(self) -> Iterator[SubscriptionBatch]:
        while (batch := self.next()) is not None:
            yield batch

    def settle(self, batch: SubscriptionBatch) -> None:
        """Say that the batch's token is stored: a key table need not be able to go back before it."""
        if self._rows is not None and batch.token is not None:
            self._rows.settle(batch.token.frontier)

    def status(self) -> SubscriptionStatus:
        """Return how it gets on."""
        lows, offsets = self._reader.lows(), self._offsets()
        return SubscriptionStatus(
            self._gate.delivered,
            self._gate.waiting_rows,
            tuple(sorted(self._reader.paused)),
            self._gate.repeats,
            min(offset - lows.get(place, 0) for place, offset in offsets.items()),
        )

    def close(self) -> None:
        """Close the client and the key table."""
        self._ended = True
        self._reader.close()
        if self._rows is not None:
            self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> SubscriptionBatch | None:
        with collector_paused():
            opening = self._gate.open()
            return None if opening is None else self._subscription.advance(opening, self._offsets())

    def _read(self, timeout_s: float) -> None:
        self._reader.pause(self._pauses.now())
        polled = self._reader.poll(timeout_s)
        with collector_paused():
            self._take(polled)

    def _take(self, polled: Sequence[PartitionRecords]) -> None:
        for place, records in polled:
            if self._side is not None and place.topic == self._table.feed.resolved_topic:
                for at in range(len(records.offsets)):
                    self._side.take(place, records.record(at))
            else:
                self._gate.take_all(place, records)
        if self._side is not None:
            for place, position in self._reader.positions.items():
                if place.topic == self._table.target.topic:
                    self._side.reach(place, position)

    def _offsets(self) -> dict[FeedPartition, int]:
        offsets = self._gate.offsets()
        return offsets if self._side is None else offsets | self._side.offsets()
