"""Runs one feed over the whole log by the processors' rounds, batch after batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final

from pyarrow import fs
from pyspark.sql import DataFrame

from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedTarget
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage, Failed, KnownTable, read_ack
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.delivery.sink_clusters import OWN
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.processor.checkpoint import PartitionProgress, decode_report
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.request import Scan, decode_request
from tidegate.rows.table_key import index_span, table_id_of, table_span
from tidegate.spans import Span
from tidegate.spark.changefeed.batch_driver import BatchDriver
from tidegate.spark.changefeed.incidents import tell_incident
from tidegate.spark.changefeed.ledger import Ledger
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.platform.file_systems import opened

_log: Final = logging.getLogger("tidegate.spark")

#: An id that no table has. A feed of this table id watches keys and is given no row.
_NO_TABLE: Final = 0
_KEY_BYTES: Final = 8  # the range id in front of each request


class OneFeed:
    """A feed that is active from the log's first record on, and the partitions' answers about it.

    It is the ``Feeds`` of a batch driver (`tidegate.spark.changefeed.batch_driver.Feeds`). ``needed_scans``
    are scans that would bring its missing versions; nobody runs them. ``failure`` says why a partition has
    failed the feed; it is empty otherwise.
    """

    def __init__(self, activation: Activate, partitions: int, cluster: str = OWN) -> None:
        self.reports: list[PartitionProgress] = []
        self.needed_scans: list[Scan] = []
        self.failure = ""
        self.rows = self.records = 0
        self.tables = tuple(target.table for target in activation.targets)
        self._activation = activation
        self._cluster = cluster
        self._untold: Sequence[int] = range(partitions)
        self._claims = RangeClaims()

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """Return the feed's activation for all partitions at the first call, and nothing later."""
        untold, self._untold = self._untold, ()
        return [(self._activation, untold)] if untold else ()

    def reached(self, _: Callable[[], Mapping[int, int]]) -> bool:
        """Return ``False``: no new feed waits, since the feed begins before the first record."""
        return False

    def paused(self) -> frozenset[FeedId]:
        """Return no feed: a backfill waits for its sink."""
        return frozenset()

    def clusters(self) -> dict[str, str]:
        """Return the id of the cluster that the feed's rows go to."""
        return {self._activation.feed_id: self._cluster}

    def note_answers(self, answers: Iterable[Answer]) -> None:
        """Note the partitions' progress, and why they failed the feed."""
        told = list(answers)
        self.reports += self._claims.count(
            [decode_report(answer.body) for answer in told if answer.kind == "checkpoint"]
        )
        for answer in told:
            match answer.kind:
                case "ack":
                    self._note_failure(answer.body)
                case "request":
                    self._note_scan(answer.body[_KEY_BYTES:])
                case "incident":
                    tell_incident(answer.body)
                case "figures":
                    figures = json.loads(answer.body)
                    self.rows += figures["rows"]
                    self.records += figures["records"]

    def publish(self) -> None:
        """Do nothing: the backfill itself stores progress and writes markers, in step F5."""

    def complete_to(self, start: Timestamp) -> Timestamp:
        """Return up to when the log is complete for all keys of the feed's tables; at least ``start``.

        Progress counts for whole tables: a range holds it back even if all of its keys are of an index that
        the feed does not watch. When several ranges claim the same keys the slowest one counts, since nobody
        here knows which one is newer.
        """
        tables = {table_id_of(span.start) for target in self._activation.targets for span in target.spans}
        watched = list(map(table_span, sorted(tables)))
        frontier = FeedFrontier(watched, start, None)
        lowest = MAX
        for report in self.reports:
            if any(active.feed_id == self._activation.feed_id for active in report.feeds):
                frontier.apply_columns(
                    report.partition, report.offset, report.starts, report.ends, report.resolved
                )
            for first, end, resolved in zip(report.starts, report.ends, report.resolved, strict=True):
                if any(Span(first, end).overlaps(span) for span in watched):
                    lowest = min(lowest, resolved)
        return max(start, min(frontier.high_water, lowest))

    @property
    def log_time_ms(self) -> int:
        """The highest record time that partitions have reported, in milliseconds; 0 without a report."""
        return max((report.log_time_ms for report in self.reports), default=0)

    def _note_failure(self, body: bytes) -> None:
        ack = read_ack(body)
        if isinstance(ack, Failed) and not self.failure:
            self.failure = f"log partition {ack.partition}: {ack.reason}"

    def _note_scan(self, body: bytes) -> None:
        request = decode_request(body)
        if isinstance(request, Scan):
            self.needed_scans.append(request)


def watching(
    definition: FeedDefinition, tables: Sequence[KnownTable], rows: PartitionRows, base: Timestamp = ZERO
) -> Activate:
    """Return a feed that watches all keys that rows of the tables may have, and is given no row.

    Everything written above ``base`` to these keys counts as missing unless the log has it. ``rows`` has the
    tables' descriptors.
    """
    options = replace(definition.options, cursor=base, initial_scan=InitialScan.NO)
    targets = tuple(
        FeedTarget(known.table, _NO_TABLE, "", 1, _keys_of_rows(known.table_id, rows)) for known in tables
    )
    return Activate(replace(definition, options=options), base, targets)


def survey(
    run: Callable[[Activate], OneFeed],
    definition: FeedDefinition,
    tables: Sequence[KnownTable],
    rows: PartitionRows,
    base: Timestamp,
    start: Timestamp | None,
) -> OneFeed:
    """Survey a log above ``base``, for a scan at ``start``. ``run`` runs a feed over the log.

    Without ``start`` the scan is at the last moment up to which the log is complete. Before a table's first
    descriptor nobody knows which index holds the rows: a scan at such a moment watches all keys of the
    tables.
    """
    found = run(watching(definition, tables, rows, base))
    complete = found.complete_to(base)
    moment = complete if start is None else start
    is_known = all(rows.primary_keys(known.table_id, moment, moment) is not None for known in tables)
    if is_known or found.failure or complete <= base:
        return found
    return run(watching(definition, tables, PartitionRows(), base))


def _keys_of_rows(table_id: int, rows: PartitionRows) -> tuple[Span, ...]:
    """Return the keys of each index that some descriptor of the table calls primary.

    Secondary indexes are left out: a new one is built by changes that no op tells of, and these changes hide
    no row. If a table has no descriptor, or has one that cannot be read, all keys of the table are returned.
    """
    is_known = not (rows.unfit(table_id) or rows.has_refused(table_id))
    versions = rows.catalog.descriptors() if is_known else ()
    indexes = dict.fromkeys(each.primary_index_id for each in versions if each.id == table_id)
    return tuple(index_span(table_id, index_id) for index_id in indexes) or (table_span(table_id),)


def run_over(slices: Iterable[DataFrame], query: Query, activation: Activate, cluster: str) -> OneFeed:
    """Run the feed over the log from its beginning, one batch for each slice; return it once all of its
    rows are acknowledged. Two slices are held at a time.

    ``cluster`` is the id of the cluster that the feed writes to, empty for the query's own. State goes to
    ``query.root``, a directory of this run alone, which is removed at the end. Raises the fault that a task
    met.
    """
    filesystem, root = opened(query.root, query.access)
    feed = OneFeed(activation, query.partitions, cluster)
    ledger = Ledger(filesystem, root)
    driver = BatchDriver(query, ledger, feed)
    try:
        for number, (records, following) in enumerate(pairwise(chain(slices, [None]))):
            assert records is not None
            feed.reports = []  # the reports of the last slice are whole
            if following is None:
                # a new driver asks every partition for its whole checkpoint
                driver = BatchDriver(query, ledger, feed)
            driver(records, number)
    finally:
        _remove_directory(filesystem, root)
    return feed


def _remove_directory(filesystem: fs.FileSystem, root: str) -> None:
    """Remove the state of a run. A failure is only logged: the rows are written already."""
    try:
        filesystem.delete_dir(root)
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning(
            "the directory %s of a backfill that has ended is not removed (%s): remove it", root, error
        )
