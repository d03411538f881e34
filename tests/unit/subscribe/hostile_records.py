"""Records that a feed never writes, put into a topic of its rows by somebody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from tests.unit.subscribe.topic_histories import Commit, TopicHistory, marker_record
from tidegate.hlc import MAX, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord

#: What stands in the place of a row's value: bytes of others, cut and damaged ones, and sizes of all kinds.
VALUES: Final[tuple[bytes | None, ...]] = (
    None,
    b"",
    b"null",
    b"{}",
    b"\xff\xfe\x00",
    b"\x00\x00\x00\x00\x07\x02\x06",
    b'{"after": {"id": 1, "balance": 2, "note": "a"}}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": "5.0000000000"',
    b'{"after": {"id": 1}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a", "b": 1}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": "99999999999999999999.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": "9999999999999999999.9999999999"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": "5.0"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": 5}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": "-5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "updated": "5.0000000000", "updated": "6.0000000000"}',
    b'{"after": {"id": 1, "id": 2, "balance": 2, "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 1e999999999, "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 1e' + b"9" * 30 + b', "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": {"a" :1,"a":2}, "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "\\": "}, "updated": "5.0000000000"}',
    b'{"after": {"id" : 1, "id": 2, "balance": 2, "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "more": 1, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "topic": "\xff", "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "a"}, "mvcc_timestamp": 5, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": NaN, "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": ' + b"9" * 5_000 + b', "note": "a"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "\\ud800"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "\xc3"}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": ' + b"[" * 100_000 + b', "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": '
    + b"[" * 5_000
    + b"]" * 5_000
    + b', "note": 1}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "' + b"x" * 2_000_000 + b'"}, "updated": "5.0000000000"}',
    b'{"after": [1, 2], "updated": "5.0000000000"}',
    b'{"after": 7, "before": 8, "updated": "5.0000000000"}',
    b'{"before": null, "updated": "5.0000000000"}',
    b'{"resolved":"5.0000000000"}',
    b'{"payload": {"after": null}, "schema": {}}',
    b'{"after": null, "before": null, "updated": "5.0000000000"}\n{"after": null, "updated": "5.0000000000"}',
)
KEYS: Final = (b"", b"[", b"[]", b"7", b'{"id": 7}', b"\xff", b"[7]", b"[7, 8]", b"[null]", b"[" * 100_000)
MARKERS: Final[tuple[bytes | None, ...]] = (
    None,
    b"",
    b"{}",
    b"[]",
    b'{"resolved":5}',
    b'{"resolved":""}',
    b'{"resolved":"5.0000000000","more":1}',
    b'{"resolved":"99999999999999999999.0000000000"}',
    b'{"resolved":"5.0000000000"}{"resolved":"5.0000000000"}',
    b'{"__crdb__": {"resolved": "5.0000000000"}}',
    b'{"offsets":{"accounts":2},"resolved":"7.0000000000"}',
    b"\xff" * 1_000,
)


class Intruder(NamedTuple):
    """A record that is put after the first ``after`` records, whichever partition they are of."""

    after: int
    place: FeedPartition
    key: bytes | None
    value: bytes | None


def intruded(history: TopicHistory, intruder: Intruder) -> TopicHistory:
    """The history with the record: later ones of its partition have higher offsets."""
    before, behind = history.records[: intruder.after], history.records[intruder.after :]
    offset = max((each.offset + 1 for place, each in before if place == intruder.place), default=0)
    moved = [
        (place, each._replace(offset=each.offset + offset + 1) if place == intruder.place else each)
        for place, each in behind
    ]
    record = FeedRecord(offset, intruder.key, intruder.value)
    return replace(history, records=(*before, (intruder.place, record), *moved))


def foreign(random: Random, history: TopicHistory) -> Intruder:
    """Bytes of others: a row, a marker, or a record that was damaged on its way."""
    after, place = random.randint(0, len(history.records)), random.choice(history.partitions)
    kind = random.randrange(4)
    if kind == 0:
        return Intruder(after, place, random.choice((b"[7]", *KEYS)), random.choice(VALUES))
    if kind == 1:
        return Intruder(after, place, None, random.choice(MARKERS))
    _, record = random.choice(history.records)
    value = damaged(random, record.value or b"")
    return Intruder(after, place, record.key if kind == 2 else damaged(random, record.key or b"[1]"), value)


def damaged(random: Random, content: bytes) -> bytes:
    """The content with one to three bytes changed, left out, or put in."""
    found = bytearray(content)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(found) + 1)
        found[at : at + random.randint(0, 2)] = random.randbytes(random.randint(0, 2))
    return bytes(found)


def fallen_marker(random: Random, history: TopicHistory) -> Intruder:
    """A marker below one before it in its partition."""
    markers = [at for at, (_, record) in enumerate(history.records) if record.key is None]
    at = random.choice(markers)
    return Intruder(
        random.randint(at + 1, len(history.records)),
        history.records[at][0],
        *marker_record(0, Timestamp(0, 1))[1:3],
    )


def highest_marker(random: Random, history: TopicHistory) -> Intruder:
    """A marker at the end of all times."""
    after, place = random.randint(0, len(history.records)), random.choice(history.partitions)
    return Intruder(after, place, None, f'{{"resolved":"{MAX.decimal()}"}}'.encode())


def new_version(
    random: Random, history: TopicHistory, write: Callable[[Commit], tuple[bytes, bytes]]
) -> tuple[Intruder, Commit]:
    """A row of a key of its own, which nobody committed, anywhere in the topics."""
    commit = Commit(Timestamp(random.randint(1, 20), 1), 99, (99, 5, "new"), None)
    after, place = random.randint(0, len(history.records)), random.choice(history.partitions)
    return Intruder(after, place, *write(commit)), commit


def other_value(random: Random, history: TopicHistory) -> Intruder:
    """A version that comes again with another value, behind its first record in the same partition."""
    rows = [at for at, (_, record) in enumerate(history.records) if record.key is not None]
    at = random.choice(rows)
    place, record = history.records[at]
    value = (record.value or b"").replace(b'{"after"', b'{ "after"')
    return Intruder(random.randint(at + 1, len(history.records)), place, record.key, value)


def redelivered(random: Random, history: TopicHistory, times: int) -> TopicHistory:
    """The history, whose partitions are written again from some record on, so many times."""
    records: list[tuple[FeedPartition, FeedRecord]] = []
    ends = dict.fromkeys(history.partitions, 0)

    def write(written: Sequence[tuple[FeedPartition, FeedRecord]]) -> None:
        for place, record in written:
            records.append((place, record._replace(offset=ends[place])))
            ends[place] += 1

    for at, each in enumerate(history.records):
        write([each])
        if random.random() < times / len(history.records):
            rows = [pair for pair in history.records[: at + 1] if pair[1].key is not None]
            write(rows[random.randint(0, len(rows)) :])
    return replace(history, records=tuple(records))
