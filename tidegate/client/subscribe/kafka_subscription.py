"""The common part of subscriptions of one table and of several: one reading of Kafka."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tidegate.client.subscribe.open_subscription import AnyBatch, OpenSubscription
from tidegate.client.subscribe.shared_reading import SharedReading
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.joint_token import JointToken
from tidegate.subscribe.client.resume_token import ResumeToken


class ReadBatch(AnyBatch, Protocol):
    """A batch of one table, or of several."""

    @property
    def token(self) -> ResumeToken | JointToken | None:
        """See ``AnyBatch``."""


ReadBatchT = TypeVar("ReadBatchT", bound=ReadBatch)


class KafkaSubscription(OpenSubscription[ReadBatchT]):
    """An open subscription whose batches come from ``reading``, which it closes."""

    def __init__(self, reading: SharedReading) -> None:
        super().__init__()
        self._reading = reading

    @property
    def as_of(self) -> Timestamp:
        """The timestamp as of which its statements began, or went on after lost history."""
        return self._reading.as_of

    @property
    def ended(self) -> bool:
        """See ``OpenSubscription``."""
        return self._reading.ended

    def settle(self, batch: ReadBatchT) -> None:
        """See ``OpenSubscription``."""
        if batch.token is not None:
            self._reading.settle(batch.token.frontier)

    def _only_waited(self) -> bool:
        return self._reading.is_waiting

    def _close(self) -> None:
        self._reading.close()
