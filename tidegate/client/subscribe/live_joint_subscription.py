"""Several tables of feeds on Kafka at one cut. `shared_reading` has the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.client.subscribe.history_policy import HistoryLoss, HistoryPolicy
from tidegate.client.subscribe.kafka_subscription import KafkaSubscription
from tidegate.client.subscribe.shared_reading import PlannedTable, ReadTokens, SharedReading
from tidegate.client.subscribe.spill_files import SpillSettings
from tidegate.errors import InputError
from tidegate.subscribe.client.joint_token import read_joint_token
from tidegate.subscribe.figures import JOINT, SubscriptionFigures
from tidegate.subscribe.joint_subscription import JointBatch
from tidegate.subscribe.updates.update import RowValues


@dataclass(frozen=True, slots=True)
class DeliveredJointBatch(JointBatch[DeliveredBatch]):
    """A batch of each member, all complete up to one frontier.

    A chunk of the snapshot has the batch of one member alone.

    ``loss`` says that history was lost before this batch, and how the members went on; ``None`` for no loss.
    """

    loss: HistoryLoss | None = None

    def __getitem__(self, member: str) -> DeliveredBatch:
        return self.members[member]

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self.members.values())


class LiveJointSubscription(KafkaSubscription[DeliveredJointBatch]):
    """Several subscriptions with one frontier, one snapshot and one token.

    ``members`` are planned statements by their names. Their feeds write to one cluster, and they have one AS
    OF, one UP TO and one SNAPSHOT. ``token`` is the text of a joint batch's token.

    Raises as ``LiveSubscription`` does, and ``InputError`` for members that cannot be read together.
    """

    def __init__(
        self,
        members: Mapping[str, PlannedTable],
        token: str = "",
        *,
        on_history_lost: HistoryPolicy = HistoryPolicy.STALL,
        spill: SpillSettings | None = None,
    ) -> None:
        _require_together(members)
        self._columns = {
            name: BatchColumns.of(each.plan, each.table.feed.options.format) for name, each in members.items()
        }
        read: ReadTokens | None = None
        if token:
            read = lambda prints: read_joint_token(token, prints).members  # noqa: E731 - it is one of two
        super().__init__(SharedReading(members, read, on_history_lost, spill))
        subscriptions = self._reading.subscriptions
        #: The names of the columns of each member's rows. ``openings`` has each member's rows before all
        #: batches.
        self.headers: Mapping[str, tuple[str, ...]] = {
            name: each.header for name, each in subscriptions.items()
        }
        self.openings: Mapping[str, tuple[RowValues, ...]] = {
            name: tuple(each.opening()) for name, each in subscriptions.items()
        }

    def figures(self) -> SubscriptionFigures:
        """Return the figures of all members together. Any thread may ask."""
        return self._reading.figures(JOINT)

    def _next(self, timeout_s: float | None) -> DeliveredJointBatch | None:
        batch = self._reading.next(timeout_s)
        if batch is None:
            return None
        loss = self._reading.loss
        members = {
            name: DeliveredBatch.of(each, self._columns[name], loss) for name, each in batch.members.items()
        }
        return DeliveredJointBatch(
            batch.frontier,
            members,
            batch.is_snapshot,
            batch.token,
            batch.is_last,
            loss,
            is_partial=batch.is_partial,
        )


def _require_together(members: Mapping[str, PlannedTable]) -> None:
    if not members:
        raise InputError("A joint subscription without statements would never give anything.")
    servers = {each.table.connection.bootstrap_servers for each in members.values()}
    if len(servers) > 1:
        raise InputError(
            f"The feeds write to several clusters ({', '.join(sorted(servers))}), and one consumer reads "
            "one: subscribe to the tables of each cluster together."
        )
    for what, found in (
        ("AS OF", {(each.plan.as_of, each.plan.at_least) for each in members.values()}),
        ("UP TO", {each.plan.up_to for each in members.values()}),
        ("SNAPSHOT", {each.plan.snapshot for each in members.values()}),
    ):
        if len(found) > 1:
            raise InputError(
                f"The statements differ in {what}, and tables at one cut have one: write it alike in all."
            )
