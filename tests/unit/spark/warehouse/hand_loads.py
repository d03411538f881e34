"""Loads of histories that are written by hand, in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.spark.warehouse.feed_histories import (
    BUCKETS,
    START,
    TOPICS,
    FeedHistory,
    HistorySource,
    Version,
    as_versions,
)
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.load_pass import Loader, PassReport, run_here
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.verify import TopicPartition

FIRST = Timestamp(BUCKETS.of(START))

A0, A1, PETS = TopicPartition("accounts", 0), TopicPartition("accounts", 1), TopicPartition("pets", 0)

#: Rows of ``accounts`` that stand in its partitions.
IN_A0, IN_A1 = (
    next(i for i in range(99) if Version("accounts", i, START, "").place == place) for place in (A0, A1)
)


@contextmanager
def directory() -> Iterator[str]:
    """The URI of an empty directory."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path).as_uri()


def below(root: str) -> Path:
    """The directory of a root."""
    return Path(root.removeprefix("file:"))


def seconds(count: float) -> Timestamp:
    """Return the timestamp that is so long after the end of the first bucket."""
    return Timestamp(FIRST.wall + int(count * 10**9))


def account(number: int, at: float, name: str = "a") -> Version:
    """A row of ``accounts``."""
    return Version("accounts", number, seconds(at), name)


def plain_loader(
    root: str,
    source: HistorySource,
    *,
    records: int = 0,
    wait: Callable[[float], object] = lambda _: None,
) -> Loader:
    """A loader that nothing happens to."""
    return Loader(source, run_here, root, BUCKETS, records=records, wait=wait)


def all_of(history: FeedHistory) -> HistorySource:
    """All of a history is there."""
    source = HistorySource(history)
    source.ends = {place: len(records) for place, records in history.records.items()}
    return source


def to_now(loading: Loader) -> PassReport:
    """Pass after pass, until there is nothing more to do."""
    while True:
        report = loading.run_pass()
        if not report.more:
            return report


def check_closed(root: str, history: FeedHistory) -> None:
    """Readers see each version up to the last closed bucket once, and nothing else."""
    house = Warehouse(root)
    closed = house.closed
    for topic in TOPICS:
        changes = house.changes(topic)
        assert as_versions(topic, changes) == history.upto(topic, closed)
        for row in changes.to_pylist():
            assert row["_deleted"] == (row["name"] is None)
            wanted = BUCKETS.of(Timestamp(row["_wall"], row["_logical"]))
            assert round(row["_bucket"].timestamp()) * 10**9 == wanted


def check_no_leavings(root: str) -> None:
    """Check that no data file is there that the tables do not have."""
    house = Warehouse(root)
    for topic in TOPICS:
        here = Path(root.removeprefix("file://"), topic, "changes")
        assert sorted(path.as_uri() for path in here.rglob("*.parquet")) == sorted(house.files(topic))
