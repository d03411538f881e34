"""Random histories of one table, as output topics have them: rows and markers of several partitions.

What a feed may do is done: rows of different keys out of timestamp order, exact copies at any later place,
markers at other moments on each partition, offsets that are left out, rows above a marker before it. What a
feed promises is kept: rows of a key in order, and no unseen row at or below a marker after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from tidegate.changefeed.definition.feed import TableName
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.updates.relation import Relation

TOPICS: Final = ("accounts", "more")
RELATION: Final = Relation(TableName("accounts"), ("id", "balance", "note"), ("id",))
_KEYS: Final = 4
_WALL: Final = re.compile(rb'"([0-9]+)\.(?=[0-9]{10}")')
#: The last marker of every partition, above all commits.
END: Final = Timestamp(20)


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a key: ``row`` is ``None`` for a deletion, ``before`` what the key had."""

    time: Timestamp
    key: int
    row: tuple[Any, ...] | None
    before: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class TopicHistory:
    """The commits of a topic, and their records in the order in which a consumer happens to read them."""

    commits: tuple[Commit, ...]
    partitions: tuple[FeedPartition, ...]
    records: tuple[tuple[FeedPartition, FeedRecord], ...]

    def rows_at(self, frontier: Timestamp) -> list[tuple[Any, ...]]:
        """The table's rows below a frontier."""
        rows: dict[int, tuple[Any, ...]] = {}
        for commit in self.commits:
            if commit.time < frontier:
                rows.pop(commit.key, None)
                if commit.row is not None:
                    rows[commit.key] = commit.row
        return list(rows.values())


def times() -> st.SearchStrategy[Timestamp]:
    """Few of them, so that commits meet at one time, and bounds meet commits."""
    return st.builds(Timestamp, st.integers(1, 12), st.integers(0, 1))


_rows = st.one_of(
    st.none(), st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(("a", "B", None)))
)


@st.composite
def topic_histories(draw: st.DrawFn) -> TopicHistory:
    """Draw up to 20 commits of four keys over one to six partitions of one or two topics.

    The order of records comes from one seed: a draw for each would take most of a test's time.
    """
    commits = _commits(
        draw(st.dictionaries(st.tuples(times(), st.integers(0, _KEYS - 1)), _rows, max_size=20))
    )
    partitions = tuple(
        FeedPartition(topic, number)
        for topic in TOPICS[: draw(st.integers(1, 2))]
        for number in range(draw(st.integers(1, 3)))
    )
    random = Random(draw(st.integers(0, 2**32)))
    queues = [
        _partition_records(random, [each for each in commits if each.key % len(partitions) == at])
        for at in range(len(partitions))
    ]
    records = []
    while any(queues):
        at = random.choice([at for at, queue in enumerate(queues) if queue])
        count = random.randint(1, 4)
        records += [(partitions[at], record) for record in queues[at][:count]]
        del queues[at][:count]
    return TopicHistory(tuple(commits), partitions, tuple(records))


def _commits(drawn: dict[tuple[Timestamp, int], tuple[Any, ...] | None]) -> list[Commit]:
    rows: dict[int, tuple[Any, ...]] = {}
    commits = []
    for time, key in sorted(drawn):
        values, before = drawn[time, key], rows.pop(key, None)
        row = None if values is None else (key, *values)
        if row is not None:
            rows[key] = row
        commits.append(Commit(time, key, row, before))
    return commits


def _partition_records(random: Random, commits: Sequence[Commit]) -> list[FeedRecord]:
    left = list(commits)
    seen: list[tuple[bytes, bytes]] = []
    marker = Timestamp(0)
    offset = random.randint(0, 3)
    records: list[FeedRecord] = []
    while left or marker < END:
        step = random.choice(("row", "row", "repeat", "marker", "gap"))
        if step == "row" and left:
            seen.append(record_bytes(_next_of_some_key(random, left)))
            records.append(FeedRecord(offset, *seen[-1]))
        elif step == "repeat" and seen:
            records.append(FeedRecord(offset, *random.choice(seen)))
        elif step == "marker":
            lowest = min((commit.time for commit in left), default=END.next())
            marker = max(marker, random.choice((lowest.prev(), Timestamp(lowest.wall - 1), marker)))
            records += [marker_record(offset, marker)] if marker > Timestamp(0) else []
        offset += random.randint(1, 3) if step == "gap" else 1
    return records


def _next_of_some_key(random: Random, left: list[Commit]) -> Commit:
    """Rows of a key come in their order; which key is next is open."""
    first = {commit.key: commit for commit in reversed(left)}
    commit = first[random.choice(sorted(first))]
    left.remove(commit)
    return commit


def record_bytes(commit: Commit) -> tuple[bytes, bytes]:
    """Key and value of a commit's record, of a feed WITH updated, diff."""
    members = [
        f'"{name}": {_row_text(row)}' for name, row in (("after", commit.row), ("before", commit.before))
    ]
    value = f'{{{", ".join(members)}, "updated": "{commit.time.decimal()}"}}'
    return f"[{commit.key}]".encode(), value.encode()


def marker_record(offset: int, marker: Timestamp) -> FeedRecord:
    """The record of a marker."""
    return FeedRecord(offset, None, f'{{"resolved":"{marker.decimal()}"}}'.encode())


def _row_text(row: tuple[Any, ...] | None) -> str:
    return json.dumps(None if row is None else dict(zip(RELATION.columns, row, strict=True)))


def reread(
    history: TopicHistory, until: int, offsets: dict[FeedPartition, int]
) -> Iterator[tuple[FeedPartition, FeedRecord]]:
    """Yield what a consumer reads that begins again at ``offsets``: partition by partition what it had read,
    then the rest."""
    again = [pair for pair in history.records[:until] if pair[1].offset >= offsets.get(pair[0], 0)]
    yield from sorted(again, key=lambda pair: history.partitions.index(pair[0]))
    yield from history.records[until:]


def shifted(history: TopicHistory, wall: int) -> TopicHistory:
    """The same history so many nanoseconds later, as with the times of our days."""
    return TopicHistory(
        tuple(replace(commit, time=_later(commit.time, wall)) for commit in history.commits),
        history.partitions,
        tuple(
            (place, record._replace(value=_later_value(record, wall))) for place, record in history.records
        ),
    )


def _later(time: Timestamp, wall: int) -> Timestamp:
    return Timestamp(time.wall + wall, time.logical)


def _later_value(record: FeedRecord, wall: int) -> bytes:
    assert record.value is not None
    return _WALL.sub(lambda found: b'"%d.' % (int(found[1]) + wall), record.value)
