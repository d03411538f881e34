"""One feed in one log partition: its status there, what it wants, and its row of state."""

from __future__ import annotations

import enum

from tidegate.changefeed.definition.feed import FeedEpoch, FeedId, FeedTarget
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.encoding.envelopes.registry import needs_previous
from tidegate.changefeed.lifecycle.control import (
    Activate,
    Register,
    Registered,
    Remove,
    read_ack,
    read_control,
)
from tidegate.errors import ForeignRecord, StateError, StateMismatch, brief
from tidegate.hlc import MAX, Timestamp
from tidegate.processor.feeds.emitter import Destination, Emitter
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import pack, unpack
from tidegate.ranges.gap import told_name
from tidegate.spans import Span


class FeedStatus(enum.Enum):
    """The status of a feed in one log partition."""

    REGISTERED = 1
    ACTIVE = 2
    FAILED = 3


class PartitionFeed:
    """A feed that one log partition has taken up."""

    __slots__ = (
        "emitter",
        "epoch",
        "id",
        "message",
        "reason",
        "registered",
        "status",
        "table_ids",
        "told_as",
    )

    def __init__(self, message: Register | Activate, registered: Registered | None) -> None:
        self.id: FeedId = message.feed_id
        self.epoch: FeedEpoch = message.definition.epoch
        #: The name by which hand-offs speak of the feed; see `told_name`.
        self.told_as = told_name(self.id, self.epoch)
        self.registered = registered
        self.status = FeedStatus.REGISTERED
        self.reason = ""
        self._set_message(message)
        self.emitter: Emitter | None = None

    def _set_message(self, message: Register | Activate) -> None:
        self.message: Register | Activate = message
        #: The ids of the tables that the feed emits; none before its start is known.
        self.table_ids = frozenset(target.table_id for target in self.targets)

    def activate(self, message: Activate) -> None:
        """Make the feed active: it emits rows from here on."""
        self._set_message(message)
        self.status = FeedStatus.ACTIVE
        destinations = {
            target.table_id: Destination(target.topic, target.partitions, target.table)
            for target in message.targets
        }
        self.emitter = Emitter(message.definition.options, message.start, destinations)

    def fail(self, reason: str) -> None:
        """Make the feed failed: it emits nothing any more."""
        self.status, self.reason, self.emitter = FeedStatus.FAILED, brief(reason), None

    @property
    def start(self) -> Timestamp:
        """The feed emits rows above this timestamp. It is `MAX` while the start is not known."""
        return self.message.start if isinstance(self.message, Activate) else MAX

    @property
    def begins_with_scan(self) -> bool:
        """Whether the feed begins with an initial scan: the rows that its tables have at its start."""
        return self.message.definition.options.initial_scan is not InitialScan.NO

    @property
    def goes_on(self) -> bool:
        """Whether earlier epochs of the feed have written the rows at or below its start."""
        return self.message.definition.may_go_on

    @property
    def scans_only(self) -> bool:
        """Whether the feed emits its initial scan and nothing else."""
        return self.message.definition.options.initial_scan is InitialScan.ONLY

    @property
    def can_miss_versions(self) -> bool:
        """Whether the feed wants versions that ranges had passed when it was activated.

        It begins with a scan, or at a cursor.
        """
        return self.begins_with_scan or self.message.definition.options.cursor is not None

    @property
    def shows_previous(self) -> bool:
        """Whether the feed's records show the values that a row replaced."""
        return needs_previous(self.message.definition.options)

    def watches(self, span: Span) -> bool:
        """Whether the feed watches any key of the span, which has no tenant prefix."""
        return any(span.overlaps(watched) for watched in self.spans)

    @property
    def targets(self) -> tuple[FeedTarget, ...]:
        """The tables that the feed emits, with their topics; none before its start is known."""
        return self.message.targets if isinstance(self.message, Activate) else ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The keys that the feed watches, without tenant prefix."""
        return tuple(span for target in self.targets for span in target.spans)


def feed_row(feed: PartitionFeed) -> bytes:
    """Return the stored form of the feed."""
    return pack(
        pb.Feed(
            feed_id=feed.id,
            epoch=feed.epoch,
            status=feed.status.value,
            registered=b"" if feed.registered is None else feed.registered.to_bytes(),
            message=feed.message.to_bytes(),
            reason=feed.reason,
        )
    )


def read_feed(value: bytes) -> PartitionFeed:
    """Return the feed of a value that ``feed_row`` made. Raises ``StateError`` if it cannot be read."""
    row = unpack(pb.Feed, value, "a feed of the partition")
    try:
        message = read_control(row.message)
        registered = read_ack(row.registered) if row.registered else None
    except ForeignRecord as foreign:
        raise StateMismatch(
            f"feed {row.feed_id} is stored with a message that is damaged: {foreign}"
        ) from None
    if isinstance(message, Remove) or not isinstance(registered, Registered | None):
        raise StateError(f"feed {row.feed_id} is stored with a message of the wrong kind")
    feed = PartitionFeed(message, registered)
    status = FeedStatus(row.status)
    if status is FeedStatus.ACTIVE and isinstance(message, Activate):
        feed.activate(message)
    elif status is FeedStatus.FAILED:
        feed.fail(row.reason)
    return feed
