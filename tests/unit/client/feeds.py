"""A feed and the records that its life leaves on the jobs topic."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.client.topics import write
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    FeedDefinition,
    FeedId,
    FeedState,
    FeedTarget,
    TableName,
)
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.job_records import JobRecord, ProgressRecord, StateRecord
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.jobs import jobs_topic
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.verify import TopicRecord

ID = FeedId("1hm2k3n4p-x7c0v9b")
SECOND = 1_000_000_000
STATEMENT = (
    "CREATE CHANGEFEED FOR accounts INTO 'kafka://127.0.0.1:9092'"
    " WITH updated, resolved='1s', initial_scan='no'"
)
TARGET = FeedTarget(TableName("accounts"), 104, "accounts", 2, ())


def definition(
    feed: FeedId = ID, initial_scan: str = "no", cursor: Timestamp | None = None
) -> FeedDefinition:
    """The feed of ``STATEMENT``, or one that differs in how it begins."""
    made = define_feed(STATEMENT, feed, 1_000 * SECOND).definition
    options = replace(made.options, initial_scan=InitialScan(initial_scan), cursor=cursor)
    return replace(made, options=options)


def running(feed: FeedId = ID) -> StateRecord:
    """The feed runs."""
    return StateRecord(feed, FIRST_EPOCH, FeedState.RUNNING, Timestamp(2_000 * SECOND), (TARGET,), {0: 5})


def succeeded(feed: FeedId = ID) -> StateRecord:
    """The feed was a scan, which is done."""
    return replace(running(feed), state=FeedState.SUCCEEDED)


def failed(error: str, feed: FeedId = ID) -> StateRecord:
    """The feed has failed."""
    return StateRecord(feed, FIRST_EPOCH, FeedState.FAILED, error=error)


def progress(feed: FeedId = ID) -> ProgressRecord:
    """The feed has come to 3000 seconds and 7 nanoseconds."""
    return ProgressRecord(feed, FIRST_EPOCH, ResolvedTimestamp(Timestamp(3_000 * SECOND + 7)), {0: 9})


def tell(bootstrap: str, app_id: str, *records: JobRecord) -> None:
    """Write records as a worker would."""
    write(
        bootstrap,
        [TopicRecord(jobs_topic(app_id), 0, -1, record.key, record.to_bytes(), 0) for record in records],
    )
