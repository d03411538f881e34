"""A Spark query goes on with the state that one of an earlier version has left (the README beside this file).

The tasks run in this process. tests/contract/test_stored_state.py has a real query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.contract.comparison import rows_by_key, unseen_rows_below_markers
from tests.destinations import DESTINATIONS
from tests.stored_state.archives import unpack
from tests.stored_state.rounds import HOME_SERVERS, QueryOverLog, feeds_of
from tests.stored_state.store_at_rest import StoreAtRest
from tests.stored_state.stored import A248221, StoredQuery, stored
from tests.stored_state.uninterrupted import no_schema, uninterrupted
from tidegate.changefeed.encoding.encoder import compile_marker
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import OutputRecord
from tidegate.processor.checkpoint import report_of
from tidegate.processor.range_claims import RangeClaims
from tidegate.processor.reference import Emitted, OutputPartition
from tidegate.raftlog.request import Scan

_CONNECTION: Final = KafkaConnection(HOME_SERVERS, destinations=DESTINATIONS)
#: Records of a log partition in a batch, behind the log that the earlier version had read.
_BATCH: Final = 40
_MOST_BATCHES: Final = 100


class GoesOn:
    """A query that takes the stored state up: first the batch that was not finished, then all others.

    ``output`` has the rows of the earlier version, and behind them the rows and the markers of this one.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.had = StoredQuery(A248221)
        unpack(self.had.archive, root)
        self.feeds = feeds_of(stored())
        self.query = QueryOverLog(root, _CONNECTION, patch)
        self.query.due = [self.feeds["scan"]]
        self.output: dict[OutputPartition, list[Emitted]] = defaultdict(list)
        self._frontiers = {feed.feed_id: _frontier(feed) for feed in self.feeds.values()}
        self._claims = RangeClaims()
        self._store = StoreAtRest(stored())
        self._rows = self._checkpoints = self._requests = 0
        self._write(self.had.rows)

    def run(self) -> None:
        """Run to the end of the log, and until markers cover all of it for every feed."""
        last = max(version.timestamp for version in stored().history)
        batch, parts = self.had.batch, self.had.parts
        while min(frontier.high_water for frontier in self._frontiers.values()) < last:
            assert batch < self.had.batch + _MOST_BATCHES
            self.query.run(batch, self._store.log, parts)
            self._write_batch()
            if all(part.stop == len(log) for part, log in zip(parts, self._store.log, strict=True)):
                self._let_time_pass()
            batch += 1
            parts = [
                slice(part.stop, min(part.stop + _BATCH, len(log)))
                for part, log in zip(parts, self._store.log, strict=True)
            ]

    def _let_time_pass(self) -> None:
        for request in self.query.requests[self._requests :]:
            self._store.answer(request)
        self._requests = len(self.query.requests)
        self._store.beat()

    def _write_batch(self) -> None:
        """Write the rows of a batch, and then the markers that its checkpoints allow."""
        self._write(self.query.rows[self._rows :])
        self._rows = len(self.query.rows)
        for checkpoint in self.query.checkpoints[self._checkpoints :]:
            (report,) = self._claims.count([report_of(checkpoint)])
            for active in report.feeds:
                frontier = self._frontiers[active.feed_id]
                frontier.apply_columns(
                    report.partition, report.offset, report.starts, report.ends, report.resolved
                )
                if (marker := frontier.due_marker()) is not None:
                    self._mark(self.feeds[active.feed_id], marker)
                    frontier.marked(marker)
        self._checkpoints = len(self.query.checkpoints)

    def _write(self, rows: Iterable[OutputRecord]) -> None:
        for row in rows:
            emitted = Emitted(row.key, row.value, row.timestamp_ms, tuple(row.headers))
            self.output[OutputPartition(row.topic, row.partition)].append(emitted)

    def _mark(self, feed: Activate, marker: ResolvedTimestamp) -> None:
        for target in feed.targets:
            value = compile_marker(target.table, feed.definition.options).encode(marker)
            for number in range(target.partitions):
                self.output[OutputPartition(target.topic, number)].append(Emitted(None, value, None, ()))


def _frontier(feed: Activate) -> FeedFrontier:
    spans = [span for target in feed.targets for span in target.spans]
    options = feed.definition.options
    return FeedFrontier(spans, feed.start, options.resolved_interval_ns, scan=options.initial_scan)


@pytest.fixture(scope="module")
def gone_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoesOn]:
    """A query that has come to the end."""
    with pytest.MonkeyPatch.context() as patch:
        run = GoesOn(tmp_path_factory.mktemp("query"), patch)
        run.run()
        yield run


def test_rows_are_those_of_an_uninterrupted_run(gone_on: GoesOn) -> None:
    expected = uninterrupted(stored(), list(gone_on.feeds.values()), no_schema)
    assert rows_by_key(gone_on.output) == expected


def test_no_row_is_new_below_a_marker(gone_on: GoesOn) -> None:
    for feed in gone_on.feeds.values():
        for target in feed.targets:
            for number in range(target.partitions):
                records = gone_on.output[OutputPartition(target.topic, number)]
                assert unseen_rows_below_markers(feed, records) == []
                assert any(record.key is None for record in records)


def test_the_state_has_what_it_was_made_for() -> None:
    """Else the other tests would be about less than they say."""
    had = StoredQuery(A248221)
    assert had.left_behind == {"away"}
    assert {row.topic.partition("-")[0] for row in had.rows} == {"home", "away"}
    assert all(part.start for part in had.parts)


def test_feeds_go_on_from_their_positions(gone_on: GoesOn) -> None:
    """No scan goes further back than a feed had come. Only the initial scan has no lower end."""
    scans = [request for request in gone_on.query.requests if isinstance(request, Scan)]
    assert not [scan for scan in scans if scan.after is None and scan.all_versions]
    lowest = min(scan.after for scan in scans if scan.after is not None)
    assert lowest >= gone_on.had.complete_to > gone_on.feeds["away"].start
    assert {scan.upto for scan in scans if scan.after is None} == {gone_on.feeds["scan"].start}
