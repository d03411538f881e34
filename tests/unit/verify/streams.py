"""Output streams for the auditor: pieces to build one by hand, and a strategy for correct ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tidegate.changefeed.encoding.partition import partition_of
from tidegate.hlc import NANOS_PER_MS, ZERO, Timestamp
from tidegate.verify import ExpectedVersion, TopicPartition, TopicRecord


def at(ms: int, logical: int = 0) -> Timestamp:
    """A timestamp at ``ms`` milliseconds."""
    return Timestamp(ms * NANOS_PER_MS, logical)


def value_of(key: int, timestamp: Timestamp) -> bytes:
    """A wrapped value; it differs from version to version."""
    return f'{{"after": {{"k": {key}, "v": {hash(timestamp)}}}, "updated": "{timestamp}"}}'.encode()


def key_of(key: int) -> bytes:
    """The key text of a table with one integer column as its primary key."""
    return f"[{key}]".encode()


def row(
    key: int, timestamp: Timestamp, topic: str = "accounts", count: int = 2, provenance: str = "1/1/0"
) -> TopicRecord:
    """The row record of a version, on its partition of ``count``; its offset is still to be given."""
    return TopicRecord(
        topic,
        partition_of(key_of(key), count),
        -1,
        key_of(key),
        value_of(key, timestamp),
        timestamp.wall_ms,
        [("tidegate-source", provenance.encode())],
    )


def marker(timestamp: Timestamp, topic: str, partition: int) -> TopicRecord:
    """A marker on one partition."""
    value = f'{{"resolved":"{timestamp}"}}'.encode()
    return TopicRecord(topic, partition, -1, None, value, timestamp.wall_ms)


def everywhere(timestamp: Timestamp, topics: dict[str, int]) -> list[TopicRecord]:
    """One emission of a marker."""
    return [marker(timestamp, topic, i) for topic, count in topics.items() for i in range(count)]


def numbered(records: Iterable[TopicRecord]) -> list[TopicRecord]:
    """The records with the offsets that a broker would give them."""
    next_offset: dict[TopicPartition, int] = {}
    placed = []
    for record in records:
        place = TopicPartition(record.topic, record.partition)
        offset = next_offset.get(place, 0)
        next_offset[place] = offset + 1
        placed.append(record._replace(offset=offset))
    return placed


@dataclass(slots=True)
class Stream:
    """The output of a correct feed, and what its source had committed."""

    topics: dict[str, int]
    records: list[TopicRecord] = field(default_factory=list)
    history: list[ExpectedVersion] = field(default_factory=list)


@dataclass(slots=True)
class _Feed:
    """A feed at work: emits what is pending in key order, and marks only what is complete."""

    stream: Stream
    pending: dict[tuple[str, int], list[Timestamp]]
    emitted: list[TopicRecord] = field(default_factory=list)
    marked: Timestamp = ZERO

    def emit(self, pick: int) -> None:
        """The next version of some key."""
        alive = sorted(place for place, versions in self.pending.items() if versions)
        if not alive:
            return
        topic, key = alive[pick % len(alive)]
        record = row(key, self.pending[topic, key].pop(0), topic, self.stream.topics[topic])
        self.emitted.append(record)
        self.stream.records.append(record)

    def replay(self, pick: int) -> None:
        """A crash: everything from some row on comes again, read elsewhere in the log."""
        if self.emitted:
            again = self.emitted[pick % len(self.emitted) :]
            self.stream.records.extend(record._replace(headers=[]) for record in again)

    def mark(self, newest: Timestamp) -> None:
        """The highest marker that holds, when it is above the last."""
        waiting = [versions[0] for versions in self.pending.values() if versions]
        resolved = min(waiting).prev() if waiting else newest.next()
        if resolved > self.marked:
            self.marked = resolved
            self.stream.records.extend(everywhere(resolved, self.stream.topics))

    def repeat_marker(self) -> None:
        """A frontier that starts repeats the persisted marker everywhere."""
        if self.marked > ZERO:
            self.stream.records.extend(everywhere(self.marked, self.stream.topics))


Commit = tuple[int, int, int, int]
Step = tuple[str, int]

_COMMITS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(1, 3), st.integers(0, 2)),
    min_size=1,
    max_size=14,
)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["emit", "emit", "mark", "replay", "repeat"]), st.integers(0, 20)), max_size=30
)


def correct_stream(
    first_count: int, second_count: int, commits: Sequence[Commit], steps: Sequence[Step]
) -> Stream:
    """Return what a correct feed of two topics writes for these commits, when it takes these steps.

    A commit is (topic, key, milliseconds since the last one, logical part). All rows are emitted in the
    end, and a last marker covers them.
    """
    stream = Stream({"accounts": first_count, "audits": second_count})
    names = list(stream.topics)
    feed = _Feed(stream, {})
    now_ms = 1
    for topic, key, step_ms, logical in commits:
        now_ms += step_ms
        timestamp = at(now_ms, logical)
        feed.pending.setdefault((names[topic], key), []).append(timestamp)
        stream.history.append(ExpectedVersion(names[topic], key_of(key), timestamp, value_of(key, timestamp)))
    newest = stream.history[-1].timestamp
    for action, pick in steps:
        _act(feed, action, pick, newest)
    while any(feed.pending.values()):
        feed.emit(0)
    feed.mark(newest)
    stream.records = numbered(stream.records)
    return stream


def _act(feed: _Feed, action: str, pick: int, newest: Timestamp) -> None:
    match action:
        case "emit":
            feed.emit(pick)
        case "mark":
            feed.mark(newest)
        case "replay":
            feed.replay(pick)
        case _:
            feed.repeat_marker()


correct_streams = st.builds(correct_stream, st.integers(1, 3), st.integers(1, 2), _COMMITS, _STEPS)
