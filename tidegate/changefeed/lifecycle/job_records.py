"""The records of the jobs topic.

Several writers write about one feed. So each has its own record key, ``<feed id>/<part>``, and none can
overwrite what another one wrote:

| part | writer | says |
|---|---|---|
| definition | client | what to feed, and to where |
| drop | client | end the feed |
| state | jobs agent | pending ... failed, the start, the targets, the error or what the feed waits for |
| progress | frontier agent | the high-water, and the log positions that belong to it |
| spans | frontier agent | which spans are far above the high-water; its loss costs time only |
| takeover | jobs agent | where a feed that was moved to this engine goes on (docs/protocols/hand-over.md) |

Records of engines belong to one epoch of the feed. From the second epoch on their keys end with ``/<epoch>``:
the engine that a feed was moved away from may still write for a moment, and must not overwrite records of the
next epoch.

The topic is compacted: the last record of a key counts, and a record without a value removes its part.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition import stored_json
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
    FeedTarget,
    targets_from_json,
)
from tidegate.changefeed.definition.literal_secrets import names_secrets
from tidegate.changefeed.definition.stored_fields import (
    MAX_EPOCH,
    flag,
    id_of_feed,
    items,
    number_of,
    plain_text,
    plain_whole,
    text,
    whole,
)
from tidegate.changefeed.lifecycle.output_topic import OutputTopics, read_topics, topics_json
from tidegate.changefeed.lifecycle.span_progress import SpanProgress
from tidegate.errors import ForeignRecord, StateError, brief
from tidegate.hlc import ResolvedTimestamp, Timestamp, parse_decimal
from tidegate.redaction import redacted
from tidegate.spans import Span


class Part(enum.Enum):
    """The parts of a feed that record keys name."""

    DEFINITION = "definition"
    DROP = "drop"
    STATE = "state"
    PROGRESS = "progress"
    SPANS = "spans"
    TAKEOVER = "takeover"


_PARTS: Final = {part.value: part for part in Part}
_KEY: Final = re.compile(
    r"(?P<feed>[A-Za-z0-9_-]{1,64})/(?P<part>[a-z_]{1,32})(?:/(?P<epoch>[1-9][0-9]{0,9}))?"
)


@dataclass(frozen=True, slots=True)
class DefinitionRecord:
    """The client's definition of a feed."""

    definition: FeedDefinition

    @property
    def key(self) -> bytes:
        """The record's key."""
        return record_key(self.definition.id, Part.DEFINITION)

    def to_bytes(self) -> bytes:
        """Return the record's value."""
        return stored_json.dump(
            Part.DEFINITION.value,
            {"definition": self.definition.to_json()},
            names_secrets=names_secrets(self.definition),
        )


@dataclass(frozen=True, slots=True)
class DropRecord:
    """A user's wish that the feed ends; ``requested_ns`` is the client's wall clock."""

    feed_id: FeedId
    requested_ns: int

    @property
    def key(self) -> bytes:
        """The record's key."""
        return record_key(self.feed_id, Part.DROP)

    def to_bytes(self) -> bytes:
        """Return the record's value."""
        return stored_json.dump(Part.DROP.value, {"feed_id": self.feed_id, "requested_ns": self.requested_ns})


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The state to which the jobs agent has brought a feed.

    From ``STARTING`` on, ``start`` is the timestamp above which the feed emits. An initial scan reads the
    tables as of ``start``. ``targets`` are the tables as they were found when the feed began. ``positions``
    are the log offsets, by log partition, from which on the feed reads. ``error`` is a sentence; it is empty
    unless the feed failed, is held, or is pending because it waits for something that may not come.
    ``sink_cluster`` is the id of the Kafka cluster that has the topics, empty for the workers' own.
    ``topics`` is what is known of the feed's topics. While the feed is pending, it says which topics the feed
    is about to create.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    state: FeedState
    start: Timestamp | None = None
    targets: tuple[FeedTarget, ...] = ()
    positions: Mapping[int, int] = field(default_factory=dict)
    error: str = ""
    sink_cluster: str = ""
    topics: OutputTopics = ()

    @property
    def key(self) -> bytes:
        """The record's key."""
        return record_key(self.feed_id, Part.STATE, self.epoch)

    def to_bytes(self) -> bytes:
        """Return the record's value."""
        body = {
            "feed_id": self.feed_id,
            "epoch": self.epoch,
            "state": self.state.value,
            "start": None if self.start is None else self.start.decimal(),
            "targets": [target.to_json() for target in self.targets],
            "positions": _positions_json(self.positions),
            "error": redacted(self.error),
        }
        if self.sink_cluster:
            body["sink_cluster"] = self.sink_cluster
        if self.topics:
            body["topics"] = topics_json(self.topics)
        return stored_json.dump(Part.STATE.value, body)


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """The progress of a feed: every row at or below ``high_water`` is on its topics, acknowledged.

    ``positions`` are the log offsets, by log partition, from which on another engine may take over.
    ``marked`` is the last marker that is known to be written to every output partition in this epoch.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    high_water: ResolvedTimestamp
    positions: Mapping[int, int]
    marked: ResolvedTimestamp | None = None

    @property
    def key(self) -> bytes:
        """The record's key."""
        return record_key(self.feed_id, Part.PROGRESS, self.epoch)

    def to_bytes(self) -> bytes:
        """Return the record's value."""
        body = {
            "feed_id": self.feed_id,
            "epoch": self.epoch,
            "high_water": self.high_water.decimal(),
            "positions": _positions_json(self.positions),
        }
        if self.marked is not None:
            body["marked"] = self.marked.decimal()
        return stored_json.dump(Part.PROGRESS.value, body)


@dataclass(frozen=True, slots=True)
class SpansRecord:
    """The spans of a feed that are complete above its high-water, for the feed's next owner.

    Every row of a span at or below its timestamp is on the feed's topics, acknowledged. That stays true as
    long as the epoch lasts, so an old or missing record only says less.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    spans: tuple[SpanProgress, ...]

    @property
    def key(self) -> bytes:
        """The record's key."""
        return record_key(self.feed_id, Part.SPANS, self.epoch)

    def to_bytes(self) -> bytes:
        """Return the record's value."""
        body = {
            "feed_id": self.feed_id,
            "epoch": self.epoch,
            "spans": [[span.start.hex(), span.end.hex(), at.decimal()] for span, at in self.spans],
        }
        return stored_json.dump(Part.SPANS.value, body)


@dataclass(frozen=True, slots=True)
class TakeoverRecord:
    """The progress that an epoch takes over from the epochs before it, which ran on other engines or
    clusters.

    Every row at or below ``high_water`` is on the feed's topics, acknowledged. ``None`` says that this is
    known of no row. ``start``, ``targets`` and ``topics`` are those that the feed began with, on the cluster
    ``sink_cluster``. Without a start the feed has not begun yet. ``marked`` is the last marker that is known
    to be written.

    On an accepted cluster (docs/protocols/accept-cluster.md) the feed writes no marker at or below
    ``silent_to``, since earlier markers up to there may stand on any cluster. ``unprepared`` says that the
    feed's topics are still to be created there.
    """

    feed_id: FeedId
    epoch: FeedEpoch
    start: Timestamp | None = None
    high_water: ResolvedTimestamp | None = None
    targets: tuple[FeedTarget, ...] = ()
    sink_cluster: str = ""
    marked: ResolvedTimestamp | None = None
    silent_to: ResolvedTimestamp | None = None
    unprepared: bool = False
    topics: OutputTopics = ()

    @property
    def key(self) -> bytes:
        """The record's key."""
        return record_key(self.feed_id, Part.TAKEOVER, self.epoch)

    def to_bytes(self) -> bytes:
        """Return the record's value."""
        body: dict[str, Any] = {
            "feed_id": self.feed_id,
            "epoch": self.epoch,
            "start": None if self.start is None else self.start.decimal(),
            "high_water": None if self.high_water is None else self.high_water.decimal(),
            "targets": [target.to_json() for target in self.targets],
            "sink_cluster": self.sink_cluster,
        }
        for name, timestamp in (("marked", self.marked), ("silent_to", self.silent_to)):
            if timestamp is not None:
                body[name] = timestamp.decimal()
        if self.unprepared:
            body["unprepared"] = True
        if self.topics:
            body["topics"] = topics_json(self.topics)
        return stored_json.dump(Part.TAKEOVER.value, body)


JobRecord: TypeAlias = (
    DefinitionRecord | DropRecord | StateRecord | ProgressRecord | SpansRecord | TakeoverRecord
)


def record_key(feed_id: FeedId, part: Part, epoch: FeedEpoch = FIRST_EPOCH) -> bytes:
    """Return the key of one part of a feed, in one of its epochs."""
    suffix = f"/{epoch}" if epoch > FIRST_EPOCH else ""
    return f"{feed_id}/{part.value}{suffix}".encode()


def parse_key(key: bytes | None) -> tuple[FeedId, Part, FeedEpoch]:
    """Return the feed, the part and the epoch of a key. Raises ``ForeignRecord`` for any other key."""
    parsed = _KEY.fullmatch((key or b"").decode("utf-8", "replace"))
    epoch = int(parsed["epoch"] or FIRST_EPOCH) if parsed else 0
    if parsed is None or parsed["part"] not in _PARTS or epoch > MAX_EPOCH:
        raise ForeignRecord(
            f"a record of the jobs topic has the key {brief(repr(key))}; keys there are <feed id>/<part> "
            f"with an epoch after it or none, and parts are {', '.join(_PARTS)}"
        )
    return FeedId(parsed["feed"]), _PARTS[parsed["part"]], FeedEpoch(epoch)


def read_job_record(key: bytes | None, value: bytes) -> JobRecord:
    """Read one record of the jobs topic.

    Raises ``ForeignRecord`` for a record that tidegate did not write. Raises ``StateError`` for a record of a
    newer version, also for a part that this version does not know.
    """
    try:
        feed_id, part, epoch = parse_key(key)
    except ForeignRecord as foreign:
        if _KEY.fullmatch((key or b"").decode("utf-8", "replace")) and stored_json.is_newer(value):
            raise StateError(f"{foreign}: it was written by a newer tidegate, upgrade this process") from None
        raise
    record = stored_json.load(value, {part.value: _READERS[part]}, f"the job record {feed_id}/{part.value}")
    about = record.definition.id if isinstance(record, DefinitionRecord) else record.feed_id
    if about != feed_id:
        raise ForeignRecord(f"the job record {feed_id}/{part.value} is about feed {about}")
    told = FIRST_EPOCH if isinstance(record, DefinitionRecord | DropRecord) else record.epoch
    if told != epoch:
        raise ForeignRecord(f"the job record {feed_id}/{part.value} of epoch {epoch} is about epoch {told}")
    return record


def _positions_json(positions: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): positions[partition] for partition in sorted(positions)}


def _read_positions(stored: dict[str, int]) -> dict[int, int]:
    return {number_of(name): plain_whole(offset, "a position", -1) for name, offset in stored.items()}


def _read_definition(stored: dict[str, Any]) -> JobRecord:
    return DefinitionRecord(FeedDefinition.from_json(stored["definition"]))


def _read_drop(stored: dict[str, Any]) -> JobRecord:
    return DropRecord(FeedId(id_of_feed(stored, "feed_id")), whole(stored, "requested_ns"))


def _read_state(stored: dict[str, Any]) -> JobRecord:
    start = stored["start"]
    return StateRecord(
        feed_id=FeedId(id_of_feed(stored, "feed_id")),
        epoch=FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
        state=FeedState(stored["state"]),
        start=None if start is None else parse_decimal(start),
        targets=targets_from_json(stored),
        positions=_read_positions(stored["positions"]),
        error=text(stored, "error"),
        sink_cluster=plain_text(stored.get("sink_cluster", ""), "sink_cluster"),
        topics=read_topics(stored),
    )


def _read_progress(stored: dict[str, Any]) -> JobRecord:
    return ProgressRecord(
        feed_id=FeedId(id_of_feed(stored, "feed_id")),
        epoch=FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
        high_water=ResolvedTimestamp(parse_decimal(stored["high_water"])),
        positions=_read_positions(stored["positions"]),
        marked=_read_resolved(stored.get("marked")),
    )


def _read_spans(stored: dict[str, Any]) -> JobRecord:
    return SpansRecord(
        feed_id=FeedId(id_of_feed(stored, "feed_id")),
        epoch=FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
        spans=tuple(_read_span(*span) for span in items(stored, "spans")),
    )


def _read_takeover(stored: dict[str, Any]) -> JobRecord:
    start = stored["start"]
    return TakeoverRecord(
        feed_id=FeedId(id_of_feed(stored, "feed_id")),
        epoch=FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
        start=None if start is None else parse_decimal(start),
        high_water=_read_resolved(stored["high_water"]),
        targets=targets_from_json(stored),
        sink_cluster=text(stored, "sink_cluster"),
        marked=_read_resolved(stored.get("marked")),
        silent_to=_read_resolved(stored.get("silent_to")),
        unprepared=flag(stored, "unprepared"),
        topics=read_topics(stored),
    )


def _read_resolved(stored: str | None) -> ResolvedTimestamp | None:
    return None if stored is None else ResolvedTimestamp(parse_decimal(stored))


def _read_span(start: str, end: str, at: str) -> SpanProgress:
    span = Span(bytes.fromhex(start), bytes.fromhex(end))
    span.validate()
    return span, ResolvedTimestamp(parse_decimal(at))


_READERS: Final = {
    Part.DEFINITION: _read_definition,
    Part.DROP: _read_drop,
    Part.STATE: _read_state,
    Part.PROGRESS: _read_progress,
    Part.SPANS: _read_spans,
    Part.TAKEOVER: _read_takeover,
}
