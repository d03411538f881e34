"""Compares what one feed is given with the true history: every row when it comes, and every checkpoint."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from sim.log.history import History, HistoryVersion, Mutated
from tests.plain_frontier import PlainFrontier
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import needs_previous
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord, RangeCheckpoint
from tidegate.rows import TableCodec, TableDescriptor
from tidegate.spans import Span


class BrokenPromise(AssertionError):
    """A row was lost, invented, or came out of order; or a checkpoint lied."""


class _Owed(NamedTuple):
    """A row that the feed has to write."""

    key: bytes
    value: bytes | None
    time_ms: int


class _Version(NamedTuple):
    """A version of a table that is valid from a time on."""

    since: Timestamp
    codec: TableCodec
    encoder: RecordEncoder

    def begins(self) -> Timestamp:
        """Return since when it is valid."""
        return self.since


class FeedJudge:
    """The judge of one feed, from its activation on. ``frontier`` is the highest timestamp that its markers
    may have.

    Keys are those of the store. Timestamps are those that rows tell; a row of the initial scan tells the
    start. ``tables`` has the versions of its tables. A row is written by the newest table version at its
    time, and a row of the initial scan by the newest one at the start. ``mutations`` have changed the past
    outside the op log. Whether the feed has to write such a version depends on the time of its mutation: a
    feed that began before the mutation cannot know of the version, and has to fail. Both sequences may grow.
    """

    def __init__(
        self, feed: Activate, tables: Sequence[TableDescriptor], mutations: Sequence[Mutated] = ()
    ) -> None:
        self.mutations = mutations
        self._mutations_known = 0
        self._owed_by: dict[tuple[bytes, Timestamp], Timestamp] = {}
        self.feed_id, self.start = feed.feed_id, feed.start
        self.options = feed.definition.options
        self._topics = {target.table_id: target.topic for target in feed.targets}
        self._names = {target.table_id: target.table for target in feed.targets}
        self._tables = tables
        self._tables_known = 0
        self._versions: dict[int, list[_Version]] = defaultdict(list)
        self._known = 0
        self._newest: dict[bytes, bytes] = {}
        self._store_keys: dict[tuple[str, bytes], bytes] = {}
        self._pending: dict[bytes, dict[Timestamp, _Owed]] = defaultdict(dict)
        self._seen: dict[bytes, dict[Timestamp, bytes | None]] = defaultdict(dict)
        self.frontier = PlainFrontier()
        for target in feed.targets:
            for span in target.spans:
                self.frontier.add(span, ZERO)

    @property
    def scans(self) -> bool:
        """Whether it begins with a scan."""
        return self.options.initial_scan is not InitialScan.NO

    @property
    def only_scans(self) -> bool:
        """Whether nothing follows the scan."""
        return self.options.initial_scan is InitialScan.ONLY

    def watches(self, span: Span) -> bool:
        """Whether any of its tables has keys there."""
        return bool(self.frontier.entries_in(span))

    def is_complete(self, last: Timestamp) -> bool:
        """Whether it has come to the end of a history whose last timestamp is given."""
        return self.frontier.minimum >= (self.start if self.only_scans else max(self.start, last))

    # ---- what comes

    def see(self, record: OutputRecord, history: History) -> None:
        """Check a row that was written."""
        self._learn(history)
        row = parse_record(record.key, record.value)
        assert isinstance(row, RowRecord)
        assert row.updated is not None
        at, key = row.updated, self._store_keys.get((record.topic, record.key))
        if key is None:
            raise BrokenPromise(f"{self.feed_id}: {record.key!r} never was")
        seen = self._seen[key]
        if at in seen:
            if seen[at] != record.value:
                raise BrokenPromise(f"{self.feed_id}: {record.key!r} at {at} came with another value again")
            return
        owed = self._pending[key].get(at)
        if owed is None:
            raise BrokenPromise(f"{self.feed_id} from {self.start}: {record.key!r} at {at} is not its own")
        if owed != (record.key, record.value, record.timestamp_ms):
            raise BrokenPromise(f"{self.feed_id}: {record} has to be {owed}")
        if seen and max(seen) > at:
            raise BrokenPromise(f"{self.feed_id}: {record.key!r} at {at} came first after {max(seen)}")
        if self.frontier.minimum >= at:
            raise BrokenPromise(f"{self.feed_id}: {record.key!r} at {at} came after {self.frontier.minimum}")
        seen[at] = record.value
        del self._pending[key][at]

    def check(self, item: RangeCheckpoint, history: History) -> None:
        """Check a checkpoint that names the feed: all rows of its span up to its timestamp must have come."""
        self._learn(history)
        for key, at in self.missing():
            if self._owed_by.get((key, at), at) <= item.resolved and item.span.contains(key):
                raise BrokenPromise(
                    f"{self.feed_id}: {item} covers {key.hex()} at {at}, which was not written"
                )
        self.frontier.forward(item.span, item.resolved)

    def missing(self) -> Iterator[tuple[bytes, Timestamp]]:
        """Keys and timestamps of rows that have not come."""
        return ((key, at) for key, owed in self._pending.items() for at in owed)

    def require_nothing_missing(self, history: History) -> None:
        """Require that every row has come."""
        self._learn(history)
        if missing := sorted(self.missing())[:3]:
            raise BrokenPromise(f"{self.feed_id} from {self.start}: rows are missing: {missing}")

    # ---- what is owed

    def _learn(self, history: History) -> None:
        """Take in what was committed since the last time."""
        for table in self._tables[self._tables_known :]:
            self._tables_known += 1
            if table.id in self._topics:
                known = _Version(
                    table.modified, TableCodec(table), compile_encoder(self._named(table), self.options)
                )
                insort(self._versions[table.id], known, key=_Version.begins)
        for version in islice(history, self._known, None):
            self._known += 1
            if version.table_id in self._versions:
                self._judge_version(version)
                self._newest[version.key] = version.value
        for mutated in self.mutations[self._mutations_known :]:
            self._mutations_known += 1
            version = mutated.version
            if version.table_id in self._versions and version.timestamp > self.start and not self.only_scans:
                self._owe(version, mutated.replaced, None)
                self._owed_by[version.key, version.timestamp] = mutated.time

    def _named(self, table: TableDescriptor) -> TableDescriptor:
        """Return the table as it was named when the feed began: its rows keep that name."""
        named = self._names[table.id]
        return replace(table, name=named.name, schema=named.schema, database=named.database)

    def _judge_version(self, version: HistoryVersion) -> None:
        key = version.key
        if version.timestamp > self.start:
            if not self.only_scans:
                self._owe(version, self._newest.get(key, b""), None)
            return
        if self.start in self._seen[key]:
            raise BrokenPromise(f"{self.feed_id}: {version} was committed after the scan had shown its key")
        if self.scans:
            self._pending[key].pop(self.start, None)
            if version.value:
                self._owe(version, b"", self.start)

    def _owe(self, version: HistoryVersion, replaced: bytes, scanned_at: Timestamp | None) -> None:
        at = scanned_at or version.timestamp
        versions = self._versions[version.table_id]
        _, codec, encoder = versions[max(0, bisect_right(versions, at, key=_Version.begins) - 1)]
        row = codec.decode(version.key, version.value)
        assert row is not None
        if needs_previous(self.options):
            before = codec.decode(version.key, replaced)
            row = row._replace(previous=() if before is None or before.values is None else before.values)
        key, value = encoder.encode(row._replace(scanned_at=scanned_at), version.timestamp)
        self._store_keys[self._topics[version.table_id], key] = version.key
        self._pending[version.key][at] = _Owed(key, value, version.timestamp.wall_ms)
