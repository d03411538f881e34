"""Feeds of several forms on the shop's log, and the rows that a sink has once it has read up to a marker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from sim.workloads.shop import Shop, ShopOptions
from stack.connect import ConnectWorker
from tests.e2e.scenario import OUTPUT_PARTITIONS, PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tests.logs import EVENTFUL_MIX, SimulatedLog, eventful_store, simulate
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.jobs import Jobs
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.rows import Catalog, Row

_FEED_S: Final = 120.0
_SINK_S: Final = 90.0
_LOOK_AGAIN_S: Final = 0.2
EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "connect"


def shop_log(seed: int, transactions: int = 200) -> SimulatedLog:
    """A shop with inserts, updates, deletes and, half way, a new nullable column."""
    options = ShopOptions(items=60, alter_at=transactions // 2, outcomes=EVENTFUL_MIX)
    return simulate(Shop(options, seed), eventful_store(PARTITIONS), seed=seed, transactions=transactions)


@dataclass(frozen=True, slots=True)
class ShopFeed:
    """A running feed on the shop's items; rows and markers are on topics of its own."""

    name: str
    topic: str
    markers: str
    start: Timestamp


def create_feed(scenario: Scenario, name: str, options: str) -> ShopFeed:
    """Create a feed by a statement with these options, and wait until it runs."""
    prefix = f"{scenario.prefix}{name}-"
    markers = f"{prefix}markers"
    statement = (
        f"CREATE CHANGEFEED FOR TABLE items INTO 'kafka://{scenario.bootstrap}?topic_prefix={prefix}' "
        f"WITH initial_scan='no', resolved, resolved_topic='{markers}', {options}"
    )
    definition = define_feed(statement, FeedId(name), time.time_ns()).definition
    jobs = Jobs(scenario.connection, scenario.app_id)
    jobs.create(definition)
    view = jobs.wait(definition.id, _FEED_S)
    assert view.status is FeedState.RUNNING, view
    assert view.current_state is not None
    assert view.current_state.start is not None
    return ShopFeed(name, f"{prefix}items", markers, view.current_state.start)


def last_marker(scenario: Scenario, feed: ShopFeed, worker: WorkerProcess) -> Mapping[int, int]:
    """Wait until the feed's markers cover the whole history. Return the end offsets of the rows that the last
    marker names."""
    end = max(version.timestamp for version in scenario.log.history)
    found: dict[int, int] = {}
    deadline = time.monotonic() + _FEED_S
    for partition, marker in _markers(scenario, feed):
        assert worker.running, worker.text[-10_000:]
        assert time.monotonic() < deadline, f"no marker at {end}\n{worker.text[-10_000:]}"
        if marker is not None and parse_decimal(marker["resolved"]) >= end:
            found[partition] = marker["offsets"][feed.topic]
            if len(found) == OUTPUT_PARTITIONS:
                break
    return found


def _markers(scenario: Scenario, feed: ShopFeed) -> Iterator[tuple[int, Any]]:
    """Yield the records that come on the side topic; (-1, None) while none comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": scenario.bootstrap,
            "group.id": f"{feed.markers}-reader",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(feed.markers, number, 0) for number in range(OUTPUT_PARTITIONS)])
        while True:
            message = consumer.poll(_LOOK_AGAIN_S)
            if message is None or message.error() is not None:
                yield -1, None
            else:
                yield message.partition(), json.loads(message.value())
    finally:
        consumer.close()


def wait_for_sink(
    scenario: Scenario, connect: ConnectWorker, connector: str, topic: str, ends: Mapping[int, int]
) -> None:
    """Wait until a connector has committed these ends of a topic. Raises with the connector's own error if it
    has failed."""
    group = f"connect-{connector}"
    consumer = Consumer({"bootstrap.servers": scenario.bootstrap, "group.id": group})
    places = [TopicPartition(topic, number) for number in ends]
    deadline = time.monotonic() + _SINK_S
    try:
        while True:
            connect.states(connector)
            reached = {place.partition: place.offset for place in consumer.committed(places, timeout=60)}
            if all(reached[number] >= end or end == 0 for number, end in ends.items()):
                return
            assert time.monotonic() < deadline, f"{group} is at {reached} of {dict(ends)}"
            time.sleep(_LOOK_AGAIN_S)
    finally:
        consumer.close()


def rows_at_the_end(log: SimulatedLog, start: Timestamp) -> dict[int, dict[str, Any]]:
    """The items that a feed from ``start`` leaves in a table, by id and column; NULL for a column that the
    row's version does not have yet."""
    catalog = Catalog()
    for table in log.tables:
        catalog.add(table)
    columns = [column.name for column in log.tables[-1].columns]
    end = max(version.timestamp for version in log.history)
    items: dict[int, dict[str, Any]] = {}
    for version in log.history.as_of(end).values():
        row = catalog.at(version.table_id, version.timestamp).decode(version.key, version.value)
        if version.timestamp > start and row is not None and row.values is not None:
            item: dict[str, Any] = {**dict.fromkeys(columns), **_by_name(row)}
            number = item["id"]
            assert isinstance(number, int)
            items[number] = item
    return items


def _by_name(row: Row) -> dict[str, Any]:
    assert row.values is not None
    return dict(zip((column.name for column in row.table.columns), row.values, strict=True))


def example(name: str) -> dict[str, str]:
    """The settings of an example's connector configuration."""
    settings = {}
    for line in (EXAMPLES / name).read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            settings[key] = value
    return settings
