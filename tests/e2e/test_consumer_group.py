"""Two plain consumers of one group cut the store's own snapshots out of the output, by the markers alone."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from confluent_kafka import Consumer

from sim.workloads.bank import OPENING_BALANCE
from tests.e2e.scenario import OUTPUT_PARTITIONS, Scenario
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows import TableCodec

pytestmark = pytest.mark.broker

_ACCOUNTS: Final = 40
_TIMEOUT_S: Final = 90.0


class Member:
    """A consumer of the group with its share of the table: rows that wait, and rows that were applied."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        self._begin([])
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self) -> None:
        """Take what has come."""
        for message in self._consumer.consume(500, timeout=0.1):
            assert message.error() is None, message.error().str()
            self._note_message(message)

    def apply(self, upto: Timestamp) -> None:
        """Apply the rows at or below ``upto``, in the order of their timestamps."""
        due = sorted(version for version in self._waiting if version[0] <= upto)
        for version in due:
            row = self._waiting.pop(version)
            if row is None:
                self.table.pop(version[1], None)
            else:
                self.table[version[1]] = row["balance"]

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self._begin([each.partition for each in partitions])

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        self._begin([])

    def _begin(self, partitions: list[int]) -> None:
        """Nothing is committed, so a new share is read from its beginning."""
        self.markers = dict.fromkeys(partitions, ZERO)
        self._waiting: dict[tuple[Timestamp, bytes], Any] = {}
        self.table: dict[bytes, int] = {}

    def _note_message(self, message: Any) -> None:
        record = parse_record(message.key(), message.value())
        if isinstance(record, MarkerRecord):
            at = self.markers[message.partition()]
            self.markers[message.partition()] = max(at, record.resolved)
        else:
            assert record.updated is not None
            self._waiting[record.updated, message.key()] = record.row


def _lowest(members: list[Member]) -> Timestamp:
    markers = [marker for member in members for marker in member.markers.values()]
    return min(markers) if len(markers) == OUTPUT_PARTITIONS else ZERO


def _truth(scenario: Scenario, at: Timestamp) -> dict[bytes, int]:
    """The balances by record key, as the store had them."""
    [table] = scenario.log.tables
    codec, truth = TableCodec(table), dict[bytes, int]()
    for key, version in scenario.log.history.as_of(at).items():
        row = codec.decode(key, version.value)
        assert row is not None
        if row.values is not None:
            number, balance = row.values
            assert isinstance(number, int)
            assert isinstance(balance, int)
            truth[f"[{number}]".encode()] = balance
    return truth


def test_a_group_of_two_cuts_the_stores_snapshots_at_every_lowest_marker(scenario: Scenario) -> None:
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    members = [Member(scenario.bootstrap, f"{scenario.prefix}readers", scenario.topic) for _ in range(2)]
    try:
        deadline = time.monotonic() + _TIMEOUT_S
        while not all(member.markers for member in members):
            for member in members:
                member.poll()
            assert time.monotonic() < deadline, [member.markers for member in members]
        scenario.append()
        assert scenario.feed is not None
        before = _truth(scenario, scenario.feed.start)  # a feed begins at the present, and no account closes
        last, opened, snapshots = scenario.end(), ZERO, 0
        while opened < last:
            for member in members:
                member.poll()
            assert worker.running, worker.text[-10_000:]
            assert time.monotonic() < deadline, f"opened {opened} of {last}"
            lowest = _lowest(members)
            if lowest <= opened:
                continue
            opened = lowest
            for member in members:
                member.apply(opened)
            balances = {**before, **members[0].table, **members[1].table}
            assert balances == _truth(scenario, opened), f"at {opened}"
            snapshots += balances != before
        assert snapshots > 0
        assert sum(balances.values()) == _ACCOUNTS * OPENING_BALANCE
    finally:
        for member in members:
            member.close()
