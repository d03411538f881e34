"""A subscription of one table of a feed on Kafka. `shared_reading` has its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.client.subscribe.history_policy import HistoryPolicy
from tidegate.client.subscribe.kafka_subscription import KafkaSubscription
from tidegate.client.subscribe.shared_reading import PlannedTable, ReadTokens, SharedReading
from tidegate.client.subscribe.spill_files import SpillSettings
from tidegate.subscribe.client.resume_token import read_token
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.updates.process_share import ProcessShare
from tidegate.subscribe.updates.update import RowValues

#: The name of the only member.
_ONLY: Final = ""


class LiveSubscription(KafkaSubscription[DeliveredBatch]):
    """One subscription of one table.

    ``plan`` is a plan for ``table``. ``token`` is the text of a batch's token: the subscription goes on after
    that batch. ``key_table`` is a directory for the rows by key, which a subscription needs if its records do
    not tell the row before. Without a directory these rows are in memory, and a resume is refused. ``spill``
    says how much memory rows that wait may take, and where the rest of them waits. ``snapshot_chunks`` asks
    for the snapshot in chunks, if the statement allows it (`comes_in_chunks`). ``columnar`` asks for batches
    as Arrow tables (`columnar_changes`); with a ``share`` it has no effect. ``share`` bounds the rows that
    this subscription keeps in memory, together with those of other subscriptions.

    Attributes:
        plan: what the statement means for the table.
        opening: the rows that come before all batches: a progress row at ``as_of`` with PROGRESS, else none.

    Raises ``HistoryLost``, ``TokenRefused``, ``SubscribeStatementError`` for bounds that cross,
    ``InputError`` for topics that do not fit and a policy that the statement excludes, ``BrokerUnavailable``
    when Kafka does not answer, ``SettingsError`` if columns are asked for without the extra ``arrow``.
    """

    def __init__(
        self,
        table: SubscribableTable,
        plan: SubscribePlan,
        token: str = "",
        key_table: Path | None = None,
        *,
        track_keys: bool = False,
        on_history_lost: HistoryPolicy = HistoryPolicy.STALL,
        spill: SpillSettings | None = None,
        snapshot_chunks: bool = False,
        share: ProcessShare | None = None,
        columnar: bool = False,
    ) -> None:
        self.plan = plan
        self._columns = BatchColumns.of(plan, table.feed.options.format)
        read: ReadTokens | None = None
        if token:
            read = lambda prints: {_ONLY: read_token(token, prints[_ONLY])}  # noqa: E731 - it is one of two
        planned = PlannedTable(table, plan, key_table, track_keys, snapshot_chunks, share, columnar)
        super().__init__(SharedReading({_ONLY: planned}, read, on_history_lost, spill))
        subscription = self._reading.subscriptions[_ONLY]
        self._header = subscription.header
        self.opening: tuple[RowValues, ...] = tuple(subscription.opening())

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row."""
        return self._header

    def figures(self) -> SubscriptionFigures:
        """Return the figures of the subscription. Any thread may ask."""
        return self._reading.figures(self.plan.shape.mode.value)

    def _next(self, timeout_s: float | None) -> DeliveredBatch | None:
        batch = self._reading.next(timeout_s)
        if batch is None:
            return None
        return DeliveredBatch.of(batch.members[_ONLY], self._columns, self._reading.loss)
