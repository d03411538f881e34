"""A feed whose records are written by hand: its application has no worker, its log only a descriptor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from confluent_kafka import Producer

from tests.feeds import activation
from tests.hand_log import HandTable, update_of
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, FeedId, FeedState
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.subscribe import LiveSubscription, subscribe
from tidegate.client.subscribe.open_subscription import AnyBatch, OpenSubscription
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import BROADCAST
from tidegate.rows import TableDescriptor

ACCOUNTS: Final = HandTable.of(104, "accounts", "id INT, balance INT, note STRING")
TRANSFERS: Final = HandTable.of(105, "transfers", "id INT, amount INT")
#: A feed that a subscription can read, with the row before in its records.
OPTIONS: Final = FeedOptions(updated=True, diff=True, resolved_interval_ns=0, initial_scan=InitialScan.YES)
START: Final = Timestamp(1)
#: What is there comes within this time, however busy the machine is.
COMES_S: Final = 30.0
_Batch = TypeVar("_Batch", bound=AnyBatch)


class HandFeed:
    """Feed ``feed`` of the application ``<prefix>app`` on ``accounts``, whose topic has ``partitions``.

    ``beside`` is another feed, in whose application this one is then; it is called as its table.
    """

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        partitions: int = 2,
        options: FeedOptions = OPTIONS,
        descriptors: Sequence[TableDescriptor] = (ACCOUNTS.descriptor,),
        beside: HandFeed | None = None,
        start: Timestamp = START,
        **topic_config: str,
    ) -> None:
        self.start = start
        self.connection = KafkaConnection(bootstrap, timeout_s=60.0)
        self.prefix, self.app_id = prefix, f"{prefix}app"
        self._table = descriptors[-1]
        self.topic = f"{prefix}{self._table.name}"
        self.partitions = partitions
        self.options = replace(options, topic_prefix=prefix)
        self._jobs = Topics(self.app_id, "").jobs
        self._states: dict[str, StateRecord] = {}
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        if beside is None:
            create_topic(bootstrap, self._jobs)
            create_topic(bootstrap, f"{prefix}raftlog")
        create_topic(bootstrap, self.topic, partitions, **topic_config)
        side = self.options.resolved_topic
        if side and (beside is None or beside.options.resolved_topic != side):
            create_topic(bootstrap, self.options.resolved_topic, partitions)
        for descriptor in descriptors:
            self.describe(descriptor)
        self.define("feed" if beside is None else self._table.name)

    def describe(self, descriptor: TableDescriptor) -> None:
        """Write a descriptor to the log."""
        entry = encode_entry(update_of(descriptor))
        self.producer.produce(f"{self.prefix}raftlog", entry, encode_key(BROADCAST))

    def define(
        self,
        feed_id: str,
        options: FeedOptions | None = None,
        start: Timestamp | None = None,
        accepted: AcceptedCluster | None = None,
    ) -> None:
        """Store a feed that runs, on the same topic."""
        start = start or self.start
        active = activation(
            [self._table],
            options or self.options,
            start=start,
            feed_id=feed_id,
            output_partitions=self.partitions,
        )
        state = StateRecord(FeedId(feed_id), FIRST_EPOCH, FeedState.RUNNING, start, active.targets)
        self._states[feed_id] = state
        for record in (DefinitionRecord(replace(active.definition, accepted=accepted)), state):
            self.producer.produce(self._jobs, record.to_bytes(), record.key)
        self.flush()

    def persist(self, wall: int, feed_id: str = "feed") -> None:
        """Store the high-water of a feed."""
        record = ProgressRecord(FeedId(feed_id), FIRST_EPOCH, ResolvedTimestamp(Timestamp(wall)), {})
        self.producer.produce(self._jobs, record.to_bytes(), record.key)
        self.flush()

    def end(self, state: FeedState, error: str = "", feed_id: str = "feed") -> None:
        """Store that a feed has ended."""
        record = replace(self._states[feed_id], state=state, error=error)
        self.producer.produce(self._jobs, record.to_bytes(), record.key)
        self.flush()

    def drop(self, feed_id: str = "feed") -> None:
        """Store that somebody dropped it."""
        record = DropRecord(FeedId(feed_id), requested_ns=0)
        self.producer.produce(self._jobs, record.to_bytes(), record.key)
        self.flush()

    def write(
        self,
        partition: int,
        wall: int,
        key: int,
        row: Mapping[str, Any] | None,
        before: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a row at the timestamp ``wall``; ``None`` is a deletion."""
        members = {"after": row, "before": before, "updated": Timestamp(wall).decimal()}
        self.put(partition, f"[{key}]".encode(), json.dumps(members).encode(), wall)

    def put(self, partition: int, key: bytes | None, value: bytes | None, wall: int = 0) -> None:
        """Write a record as it is; its time is that of its row."""
        self.producer.produce(self.topic, value, key, partition, timestamp=max(Timestamp(wall).wall_ms, 1))

    def mark(self, wall: int, *partitions: int) -> None:
        """Write a marker to these partitions, or to all."""
        value = f'{{"resolved":"{Timestamp(wall).decimal()}"}}'.encode()
        for partition in partitions or range(self.partitions):
            self.put(partition, None, value, wall)
        self.flush()

    def mark_aside(self, wall: int, ends: Mapping[str, int], partition: int = 0) -> None:
        """Write a marker to the ``resolved_topic``: it counts where topics end at these offsets."""
        marker = json.dumps({"offsets": dict(sorted(ends.items())), "resolved": Timestamp(wall).decimal()})
        value = marker.replace(" ", "").encode()
        self.producer.produce(self.options.resolved_topic, value, None, partition)
        self.flush()

    def flush(self) -> None:
        """Return once everything is in Kafka."""
        assert self.producer.flush(60) == 0


def opened(feed: HandFeed, /, statement: str = "SUBSCRIBE accounts", **more: Any) -> LiveSubscription:
    """A subscription of the feed's application."""
    return subscribe(statement, feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix, **more)


def account(key: int, balance: int, note: str = "") -> dict[str, Any]:
    """A row of accounts."""
    return {"id": key, "balance": balance, "note": note}


def next_of(subscription: OpenSubscription[_Batch]) -> _Batch:
    """The next batch, which has to come."""
    batch = subscription.next(COMES_S)
    assert batch is not None, "no batch came"
    return batch
