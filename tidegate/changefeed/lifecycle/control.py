"""The messages of the jobs agent to log partitions about feeds, and the partitions' answers.

The control topic has one partition per log partition, and the jobs agent writes every message to all of them,
keyed by feed. It is compacted: the last message about a feed may be the only one that a partition ever sees,
so ``Activate`` repeats the definition. The acknowledgements are keyed by feed, epoch and log partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition import stored_json
from tidegate.changefeed.definition.feed import (
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedTarget,
    TableName,
    targets_from_json,
)
from tidegate.changefeed.definition.stored_fields import (
    MAX_EPOCH,
    MAX_INT32,
    id_of_feed,
    items,
    plain_text,
    plain_whole,
    text,
    whole,
)
from tidegate.errors import ForeignRecord
from tidegate.hlc import ZERO, Timestamp, parse_decimal

#: The time, in seconds, for which a log partition that registered a feed is held for its ``Activate``
#: (docs/protocols/held-partitions.md). After that the partition goes on without the message. The answers of
#: all partitions take a fraction of a second, and the creation of the feed's topics takes some seconds more.
#: A message that takes longer than this limit may never come.
HELD_LIMIT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Register:
    """The order to take up this feed at the next batch boundary, and to answer ``Registered``.

    The feed emits nothing yet.
    """

    definition: FeedDefinition

    @property
    def feed_id(self) -> FeedId:
        """The feed's id."""
        return self.definition.id

    def to_bytes(self) -> bytes:
        """Return the message's value."""
        return stored_json.dump("register", {"definition": self.definition.to_json()})


@dataclass(frozen=True, slots=True)
class Activate:
    """The order to emit the targets' rows above ``start``, and to answer ``Active``.

    The partition emits them from the position of registration on.
    """

    definition: FeedDefinition
    start: Timestamp
    targets: tuple[FeedTarget, ...]

    @property
    def feed_id(self) -> FeedId:
        """The feed's id."""
        return self.definition.id

    def to_bytes(self) -> bytes:
        """Return the message's value."""
        body = {
            "definition": self.definition.to_json(),
            "start": self.start.decimal(),
            "targets": [target.to_json() for target in self.targets],
        }
        return stored_json.dump("activate", body)


@dataclass(frozen=True, slots=True)
class Remove:
    """The order to forget this feed in all epochs up to this one, and to answer ``Removed``."""

    feed_id: FeedId
    epoch: FeedEpoch

    def to_bytes(self) -> bytes:
        """Return the message's value."""
        return stored_json.dump("remove", {"feed_id": self.feed_id, "epoch": self.epoch})


ControlMessage: TypeAlias = Register | Activate | Remove

#: The number in a failure in place of that of a log partition, when no partition is at fault.
NO_PARTITION: Final = -1


def control_key(feed_id: FeedId) -> bytes:
    """Return the key of every control message about a feed."""
    return feed_id.encode()


def read_control(value: bytes) -> ControlMessage:
    """Read a message of the control topic.

    Raises ``ForeignRecord`` for bytes that are no such message, and ``StateError`` for a message of a newer
    version.
    """
    return stored_json.load(value, _MESSAGES, "a message of the control topic")


def read_control_record(key: bytes | None, value: bytes) -> ControlMessage:
    """Read a record of the control topic, whose key must be that of its feed. Raises as `read_control`."""
    message = read_control(value)
    if key != control_key(message.feed_id):
        raise ForeignRecord(f"a message of the control topic about feed {message.feed_id} has another key")
    return message


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table of the definition, whose descriptor a log partition has."""

    table: TableName
    table_id: int


@dataclass(frozen=True, slots=True)
class Registered:
    """The feed is in the partition's state.

    ``position`` is the log offset from which on the feed reads, ``highest`` the highest MVCC timestamp that
    the partition has applied below that offset. ``tables`` leaves out tables whose descriptor the partition
    does not have. If it leaves out a table, ``refused`` says which descriptors the partition could not
    accept, and why: one of them may be the missing table's.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    partition: int
    position: int
    highest: Timestamp
    tables: tuple[KnownTable, ...]
    refused: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the acknowledgement's value."""
        body = {
            **_stored_address(self),
            "position": self.position,
            "highest": self.highest.decimal(),
            "tables": [[known.table.to_json(), known.table_id] for known in self.tables],
        }
        if self.refused:
            body["refused"] = list(self.refused)
        return stored_json.dump("registered", body)


@dataclass(frozen=True, slots=True)
class Active:
    """The partition emits the feed's rows."""

    feed_id: FeedId
    epoch: FeedEpoch
    partition: int

    def to_bytes(self) -> bytes:
        """Return the acknowledgement's value."""
        return stored_json.dump("active", _stored_address(self))


@dataclass(frozen=True, slots=True)
class Failed:
    """The partition cannot run the feed any further; ``reason`` is a sentence.

    ``partition`` is `NO_PARTITION` if the feed's markers cannot be written any more.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    partition: int
    reason: str

    def to_bytes(self) -> bytes:
        """Return the acknowledgement's value."""
        return stored_json.dump("failed", {**_stored_address(self), "reason": self.reason})


@dataclass(frozen=True, slots=True)
class Removed:
    """The partition has forgotten the feed.

    ``reason`` says why the feed had failed there, if it had: this record replaces a `Failed` that may have
    been written just before. ``highest`` is the highest MVCC timestamp that the partition has applied: no
    row of the feed from this partition is above it. It is zero if an earlier version of tidegate answered.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    partition: int
    reason: str = ""
    highest: Timestamp = ZERO

    def to_bytes(self) -> bytes:
        """Return the acknowledgement's value."""
        body = _stored_address(self)
        if self.reason:
            body["reason"] = self.reason
        if self.highest > ZERO:
            body["highest"] = self.highest.decimal()
        return stored_json.dump("removed", body)


Ack: TypeAlias = Registered | Active | Failed | Removed


def ack_key(ack: Ack) -> bytes:
    """Return the key of an acknowledgement."""
    return f"{ack.feed_id}/{ack.epoch}/{ack.partition}".encode()


def read_ack(value: bytes) -> Ack:
    """Read an acknowledgement.

    Raises ``ForeignRecord`` for bytes that are no acknowledgement, and ``StateError`` for one of a newer
    version.
    """
    return stored_json.load(value, _ACKS, "an acknowledgement of the control topic")


def read_ack_record(key: bytes | None, value: bytes, partitions: int) -> Ack:
    """Read a record of the topic of acknowledgements, from one of ``partitions`` log partitions.

    Its key must be that of its acknowledgement. Raises as `read_ack`.
    """
    ack = read_ack(value)
    if key != ack_key(ack) or ack.partition >= partitions:
        raise ForeignRecord(f"an acknowledgement about feed {ack.feed_id} has another key, or no partition")
    return ack


def _read_register(stored: dict[str, Any]) -> ControlMessage:
    return Register(FeedDefinition.from_json(stored["definition"]))


def _read_activate(stored: dict[str, Any]) -> ControlMessage:
    return Activate(
        definition=FeedDefinition.from_json(stored["definition"]),
        start=parse_decimal(stored["start"]),
        targets=targets_from_json(stored),
    )


def _read_remove(stored: dict[str, Any]) -> ControlMessage:
    return Remove(FeedId(id_of_feed(stored, "feed_id")), FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)))


def _stored_address(ack: Ack) -> dict[str, Any]:
    return {"feed_id": ack.feed_id, "epoch": ack.epoch, "partition": ack.partition}


def _address(stored: dict[str, Any]) -> tuple[FeedId, FeedEpoch, int]:
    return (
        FeedId(id_of_feed(stored, "feed_id")),
        FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
        whole(stored, "partition", NO_PARTITION, MAX_INT32),
    )


def _read_registered(stored: dict[str, Any]) -> Ack:
    tables = tuple(
        KnownTable(TableName.from_json(table), plain_whole(number, "a table's id", 1))
        for table, number in items(stored, "tables")
    )
    highest = parse_decimal(stored["highest"])
    refused = tuple(plain_text(each, "refused") for each in stored.get("refused", ()))
    return Registered(*_address(stored), whole(stored, "position"), highest, tables, refused)


def _read_active(stored: dict[str, Any]) -> Ack:
    return Active(*_address(stored))


def _read_failed(stored: dict[str, Any]) -> Ack:
    return Failed(*_address(stored), text(stored, "reason"))


def _read_removed(stored: dict[str, Any]) -> Ack:
    highest = parse_decimal(stored["highest"]) if "highest" in stored else ZERO
    return Removed(*_address(stored), plain_text(stored.get("reason", ""), "reason"), highest)


_MESSAGES: Final = {"register": _read_register, "activate": _read_activate, "remove": _read_remove}
_ACKS: Final = {
    "registered": _read_registered,
    "active": _read_active,
    "failed": _read_failed,
    "removed": _read_removed,
}
