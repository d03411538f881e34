"""A subscription of a feed's table on Kafka: reads its topic, and gives batches.

1. The table's columns come from the log's descriptors, its topic from the feed (`feed_catalog`).
2. AS OF is chosen from what the topic can still answer (`feed_history`), or from a token, whose offsets must
   still be there.
3. Records are read partition by partition (`feed_reader`) and given to the gate (`feed_gate`).
4. When the gate opens, the subscription makes a batch of what it lets through.
5. The batch's token has the offsets of the gate, so a resume reads what waits again.

Failure cases: a crash before the consumer has stored a token repeats the batch, which is the same rows
again; a crash after it repeats nothing. Between 2 and 3 retention may delete what is to be read: step 3 then
ends with ``HistoryLost``.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.subscribe.durable_key_rows import open_key_rows
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.feed_gate import FeedGate
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.client.subscribe.open_subscription import OpenSubscription
from tidegate.hlc import ZERO
from tidegate.subscribe.client.resume_token import read_token
from tidegate.subscribe.figures import SubscriptionFigures, lag_s
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.row_gate import GateStart
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


class LiveSubscription(OpenSubscription[DeliveredBatch]):
    """One subscription of one table.

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
        super().__init__()
        history = FeedHistory.now(table)
        topics = sorted({place.topic for place in (*history.rows, *history.markers)})
        ids = open_admin(table.connection, table.connection.timeout_s).ids(topics)
        name = f"{table.feed.feed_id}/{ids[table.target.topic]}"
        self._table = table
        self.plan = plan
        self._columns = BatchColumns.of(plan, table.feed.options.format)
        self._ended = False
        self._batches = self._delivered_rows = 0
        with ExitStack() as opened:  # closes what was opened if the rest fails
            self._rows = None if key_table is None else open_key_rows(key_table, name, plan.relation)
            if self._rows is not None:
                opened.callback(self._rows.close)
            source = SubscriptionSource(name, table.tells_before, self._rows)
            if token:
                start = self._resume(history, source, token)
            else:
                start = self._begin(history, source, track_keys=track_keys)
            self._gate = FeedGate(table.connection, [history], ids, start)
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
        """See ``OpenSubscription``."""
        return self._ended

    def _next(self, timeout_s: float | None) -> DeliveredBatch | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ended:
            opening = self._gate.open()
            batch = None if opening is None else self._subscription.advance(opening, self._gate.offsets())
            if batch is not None:
                self._ended = batch.is_last
                self._batches += 1
                self._delivered_rows += len(batch.rows)
                return DeliveredBatch.of(batch, self._columns)
            left = _POLL_S if until is None else min(_POLL_S, until - time.monotonic())
            if left < 0:
                return None
            self._gate.read(left)
        return None

    def settle(self, batch: SubscriptionBatch) -> None:
        """See ``OpenSubscription``."""
        if self._rows is not None and batch.token is not None:
            self._rows.settle(batch.token.frontier)

    def figures(self) -> SubscriptionFigures:
        """Return how it gets on. Any thread may ask."""
        gate = self._gate.gate
        return SubscriptionFigures(
            output=self.plan.shape.mode.value,
            batches=self._batches,
            rows=self._delivered_rows,
            repeats=gate.repeats,
            delivered=gate.delivered,
            lag_s=lag_s(gate.delivered, time.time_ns()),
            waiting_rows=gate.waiting_rows,
            waiting_bytes=gate.waiting_bytes,
            paused=self._gate.paused,
            retention_margin=self._gate.retention_margin,
        )

    def _close(self) -> None:
        self._ended = True
        self._gate.close()
        if self._rows is not None:
            self._rows.close()
