"""Tests what is taken from the answers of workers."""

from __future__ import annotations

import json

from tests.hand_log import at
from tests.unit.client.why.hand_evidence import FEED, URL
from tidegate.client.why.evidence import DeliveryEvidence, ForeignEvidence, LaggingEvidence, read_workers
from tidegate.raftlog.entry import RangeId
from tidegate.worker.operations.report import (
    DeliveryReport,
    ForeignReport,
    LaggingReport,
    PartitionReport,
    WorkerReport,
)


def test_what_workers_say_of_the_feed_is_taken_and_not_what_they_say_of_others() -> None:
    partitions = tuple(
        PartitionReport(
            number,
            "running",
            lagging=(
                LaggingReport(number, "bank", 2, None, 7, 0, 0, None),
                LaggingReport(number, "other", 1, str(at(30)), 7, 0, 0, 5),
            ),
            deliveries=(
                DeliveryReport(number, "bank", "spooling", 10, 900),
                DeliveryReport(number, "other", "stalled", 20, 0),
            ),
        )
        for number in range(2)
    )
    reports = {
        f"http://w{each.partition}": WorkerReport("app", None, "raftlog", 2, 1, (each,)).as_json()
        for each in partitions
    }
    told = read_workers(FEED.feed_id, json.loads(json.dumps(reports)))
    assert told.deliveries == (
        DeliveryEvidence(0, "spooling", "http://w0", 10, 900),
        DeliveryEvidence(1, "spooling", "http://w1", 10, 900),
    )
    assert told.lagging == tuple(LaggingEvidence(number, 2, None, RangeId(7), 0, None) for number in range(2))


def test_foreign_records_are_read_from_what_workers_say_and_older_ones_say_nothing() -> None:
    report = WorkerReport(
        "app", None, "raftlog", 3, 1_000, foreign=(ForeignReport("app-jobs", 3, 0, 17, "no JSON"),)
    )
    status = report.as_json()
    told = read_workers(FEED.feed_id, {URL: status}).foreign
    assert told == (ForeignEvidence(URL, "app-jobs", 3, 0, 17, "no JSON"),)
    del status["foreign_records"]
    assert read_workers(FEED.feed_id, {URL: status}).foreign == ()
