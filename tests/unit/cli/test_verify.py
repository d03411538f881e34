"""``tidegate tail`` and ``tidegate verify`` on a real broker."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from sim.log.history import History, HistoryVersion
from stack.kafka import KafkaBroker
from tests.unit.cli.running import run
from tests.unit.client.feeds import definition, tell
from tests.unit.client.topics import create_topic, delete_before, write
from tests.unit.verify.streams import at, everywhere, marker, row
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedState, FeedTarget, TableName
from tidegate.changefeed.encoding.resolved_topic import offset_marker_value
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.client.jobs import jobs_topic
from tidegate.hlc import ResolvedTimestamp
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import BROADCAST, DescriptorUpdate
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    TableCodec,
    TableDescriptor,
    encode_descriptor,
    parse_sql_type,
)
from tidegate.verify import TopicRecord

pytestmark = pytest.mark.broker


class Topic:
    """A topic of two partitions and what is written to it."""

    config: ClassVar[dict[str, str]] = {}

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.kafka: tuple[str, ...] = ("-b", bootstrap)
        create_topic(bootstrap, name, 2, **self.config)

    def row(self, key: int, ms: int) -> TopicRecord:
        return row(key, at(ms), self.name)

    def markers(self, ms: int) -> list[TopicRecord]:
        return everywhere(at(ms), {self.name: 2})

    def write(self, *records: TopicRecord) -> None:
        write(self.bootstrap, records)


@pytest.fixture
def topic(broker: KafkaBroker, topic_prefix: str) -> Topic:
    return Topic(broker.bootstrap, f"{topic_prefix}accounts")


def test_tail_prints_rows_and_markers(topic: Topic) -> None:
    topic.write(topic.row(2, 5), marker(at(9), topic.name, 1))
    result = run("tail", topic.name, *topic.kafka)
    value = (topic.row(2, 5).value or b"").decode()
    assert result.stdout.splitlines() == [
        f"{topic.name}[1]@0 [2] -> {value}",
        f"{topic.name}[1]@1 resolved 9000000.0000000000",
    ]


def test_tail_stops_at_its_limit(topic: Topic) -> None:
    topic.write(*[topic.row(2, ms) for ms in range(1, 9)])
    assert len(run("tail", topic.name, "-n", "3", *topic.kafka).stdout.splitlines()) == 3


def test_tail_shows_what_is_unreadable_as_it_is(topic: Topic) -> None:
    topic.write(marker(at(5), topic.name, 0)._replace(value=b"\xff{"))
    assert run("tail", topic.name, *topic.kafka).stdout == (
        f"{topic.name}[0]@0 unreadable: key None value b'\\xff{{'\n"
    )


def test_verify_passes_a_correct_topic(topic: Topic) -> None:
    topic.write(topic.row(2, 5), topic.row(1, 6), *topic.markers(9))
    result = run("verify", topic.name, *topic.kafka)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith("PASSED")


def test_verify_fails_a_topic_with_a_late_row(topic: Topic) -> None:
    topic.write(*topic.markers(9), topic.row(2, 5))
    result = run("verify", topic.name, *topic.kafka, "--json")
    assert result.exit_code == 1
    (violation,) = json.loads(result.stdout)["violations"]
    assert [violation[name] for name in ("kind", "partition", "offset", "key")] == ["late_row", 1, 1, "[2]"]


def test_verify_says_what_it_could_not_check(topic: Topic) -> None:
    topic.write(topic.row(2, 5), *topic.markers(4), *topic.markers(9), topic.row(2, 5))
    delete_before(topic.bootstrap, topic.name, 1, 1)
    result = run("verify", topic.name, *topic.kafka)
    assert result.exit_code == 2
    assert "1 rows may repeat rows that were deleted from the topic" in result.stdout


def test_verify_of_a_missing_topic_could_not_check(topic: Topic) -> None:
    result = run("verify", f"{topic.name}-x", *topic.kafka)
    assert result.exit_code == 2
    assert f"has no topic {topic.name}-x" in result.stderr


def test_verify_forgets_beyond_the_horizon(topic: Topic) -> None:
    marks = [record for ms in (5, 2_000, 4_000, 6_000) for record in topic.markers(ms)]
    topic.write(topic.row(2, 1), *marks, topic.row(2, 1))
    assert run("verify", topic.name, *topic.kafka).exit_code == 0
    assert run("verify", topic.name, "--horizon", "1s", *topic.kafka).exit_code == 2


TABLE = TableDescriptor(
    id=104,
    name="accounts",
    version=1,
    modified=at(1),
    columns=(
        Column(1, "k", parse_sql_type("INT8"), nullable=False),
        Column(2, "v", parse_sql_type("INT8")),
    ),
    primary_key=(KeyPart(1),),
    families=(Family(0, "primary", (1, 2)),),
)


class Fed(Topic):
    """A topic that a feed of ``TABLE`` writes from 2 ms on; the table stands in the log."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        super().__init__(bootstrap, f"{prefix}accounts")
        self.kafka = ("-b", bootstrap, "--app-id", prefix)
        create_topic(bootstrap, jobs_topic(prefix), cleanup_policy="compact")
        create_topic(bootstrap, f"{prefix}raftlog")
        self._describe(prefix)
        target = FeedTarget(TableName("accounts"), TABLE.id, self.name, 2, ())
        self.prefix = prefix
        self.definition = feed = self._definition(prefix)
        state = StateRecord(feed.id, FIRST_EPOCH, FeedState.RUNNING, at(2), (target,))
        tell(bootstrap, prefix, DefinitionRecord(feed), state)
        self.feed = ("--feed", feed.id)
        self.log = ("--topic-prefix", prefix)

    def _definition(self, prefix: str) -> FeedDefinition:
        return definition()

    def _describe(self, prefix: str) -> None:
        update = DescriptorUpdate(TABLE.id, 1, TABLE.modified, encode_descriptor(TABLE))
        value = encode_entry(update)
        self.write(TopicRecord(f"{prefix}raftlog", 0, -1, encode_key(BROADCAST), value, 1))

    def version(self, key: int, ms: int, value: int) -> HistoryVersion:
        stored_key, stored_value = TableCodec(TABLE).encode((key, value))
        return HistoryVersion(TABLE.id, stored_key, at(ms), stored_value)


@pytest.fixture
def fed(broker: KafkaBroker, topic_prefix: str) -> Fed:
    return Fed(broker.bootstrap, topic_prefix)


def _row(fed: Fed, key: int, ms: int, value: int) -> TopicRecord:
    text = f'{{"after": {{"k": {key}, "v": {value}}}, "updated": "{at(ms)}"}}'
    return fed.row(key, ms)._replace(value=text.encode())


def test_verify_of_a_feed_audits_its_topics_from_its_start(fed: Fed) -> None:
    fed.write(_row(fed, 2, 2, 7), *fed.markers(9))
    result = run("verify", *fed.feed, "--json", *fed.kafka)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["violation_counts"] == {"below_start": 1}


class FedAside(Fed):
    """The same with markers on a topic of their own, and rows on a compacted one."""

    config: ClassVar = {"cleanup_policy": "compact"}

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.aside = f"{prefix}markers"
        super().__init__(bootstrap, prefix)
        create_topic(bootstrap, self.aside, 2)

    def _definition(self, prefix: str) -> FeedDefinition:
        feed = super()._definition(prefix)
        return replace(feed, options=replace(feed.options, resolved_topic=self.aside))

    def both(self, ms: int, *ends: int) -> list[TopicRecord]:
        resolved = ResolvedTimestamp(at(ms))
        values = [offset_marker_value(resolved, {self.name: end}) for end in ends]
        return [TopicRecord(self.aside, i, -1, None, value, 0) for i, value in enumerate(values)]


@pytest.fixture
def fed_aside(broker: KafkaBroker, topic_prefix: str) -> FedAside:
    return FedAside(broker.bootstrap, topic_prefix)


def test_verify_reads_the_markers_of_a_topic_of_their_own(fed_aside: FedAside) -> None:
    fed = fed_aside
    fed.write(_row(fed, 2, 3, 7), *fed.both(9, 0, 1), _row(fed, 2, 10, 8))
    for arguments in (fed.feed, (fed.name, *fed.feed)):
        result = run("verify", *arguments, *fed.kafka)
        assert result.exit_code == 0, result.stdout + result.stderr
        assert "2 rows (0 repeated) of 1 keys and 2 markers on 4 partitions" in result.stdout
        assert "complete up to 9000000.0000000000" in result.stdout


def test_verify_finds_a_marker_that_names_rows_which_are_not_there(fed_aside: FedAside) -> None:
    fed_aside.write(_row(fed_aside, 2, 3, 7), *fed_aside.both(9, 0, 2))
    result = run("verify", *fed_aside.feed, "--json", *fed_aside.kafka)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["violation_counts"] == {"marker_beyond_end": 1}


def test_verify_of_markers_alone_holds_them_to_their_own_rules(fed_aside: FedAside) -> None:
    fed_aside.write(*fed_aside.both(9, 0, 0), *fed_aside.both(8, 0, 0))
    result = run("verify", fed_aside.aside, *fed_aside.feed, "--json", *fed_aside.kafka)
    assert json.loads(result.stdout)["violation_counts"] == {"marker_fell": 2}


def test_verify_knows_that_compaction_removes_rows(fed_aside: FedAside, tmp_path: Path) -> None:
    fed = fed_aside
    History([fed.version(2, 3, 6), fed.version(2, 4, 7)]).dump(tmp_path / "history")
    fed.write(_row(fed, 2, 4, 7), *fed.both(9, 0, 1))
    result = run("verify", *fed.feed, "--history", str(tmp_path / "history"), *fed.log, *fed.kafka)
    assert result.exit_code == 2, result.stdout + result.stderr
    assert "not checked (MISSING_ROW): 2 partitions are compacted" in result.stdout


def test_tail_of_a_feed_shows_the_markers_of_a_topic_of_their_own(fed_aside: FedAside) -> None:
    fed_aside.write(*fed_aside.both(9, 0, 5))
    lines = run("tail", *fed_aside.feed, *fed_aside.kafka).stdout.splitlines()
    assert sorted(lines) == [
        f"{fed_aside.aside}[{i}]@0 resolved 9000000.0000000000: {fed_aside.name} below {end}"
        for i, end in enumerate((0, 5))
    ]


def _ends(fed: Fed, state: FeedState, error: str = "") -> None:
    feed = fed.definition
    target = FeedTarget(TableName("accounts"), TABLE.id, fed.name, 2, ())
    tell(fed.bootstrap, fed.prefix, StateRecord(feed.id, FIRST_EPOCH, state, at(2), (target,), error=error))


def test_following_a_scan_ends_when_it_is_complete(fed: Fed) -> None:
    fed.write(_row(fed, 2, 3, 7))

    def scan() -> None:
        fed.write(_row(fed, 1, 3, 8))
        _ends(fed, FeedState.SUCCEEDED)

    rest = threading.Timer(1, scan)
    rest.start()
    result = run("tail", *fed.feed, "--follow", "--from", "beginning", *fed.kafka)
    rest.join()
    assert result.exit_code == 0
    assert [line.partition(" ")[0] for line in sorted(result.stdout.splitlines())] == [
        f"{fed.name}[0]@0",
        f"{fed.name}[1]@0",
    ]
    assert "has succeeded: its scan is complete" in result.stderr


def test_following_a_feed_that_fails_says_why(fed: Fed) -> None:
    fed.write(_row(fed, 2, 3, 7))
    _ends(fed, FeedState.FAILED, "log partition 3: no such column")
    result = run("tail", *fed.feed, "--follow", "--from", "beginning", *fed.kafka)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert "has failed, and nothing has come for 2 s; a worker that" in result.stderr
    assert "The reason: log partition 3: no such column" in result.stderr


def test_following_a_dropped_feed_ends(fed: Fed) -> None:
    _ends(fed, FeedState.DROPPED)
    result = run("tail", *fed.feed, "--follow", *fed.kafka)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "was dropped, and nothing has come for 2 s; a worker that has not heard of it may" in result.stderr


def test_the_limit_is_no_end_of_the_feed(fed: Fed) -> None:
    fed.write(_row(fed, 2, 3, 7))
    result = run("tail", *fed.feed, "--follow", "--from", "beginning", "-n", "1", *fed.kafka)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_feed_that_failed_before_it_started_has_nothing_to_follow(fed: Fed) -> None:
    record = StateRecord(fed.definition.id, FIRST_EPOCH, FeedState.FAILED, error="no such table")
    tell(fed.bootstrap, fed.prefix, record)
    result = run("tail", *fed.feed, "--follow", *fed.kafka)
    assert result.exit_code == 1
    assert "is failed and never had any topics: no such table." in result.stderr


def test_verify_with_a_history_finds_what_is_missing(fed: Fed, tmp_path: Path) -> None:
    History([fed.version(2, 2, 6), fed.version(2, 3, 7), fed.version(1, 4, 8)]).dump(tmp_path / "history")
    fed.write(_row(fed, 2, 3, 7), *fed.markers(9))
    options = ("--history", str(tmp_path / "history"), "--json", *fed.log, *fed.kafka)
    report = json.loads(run("verify", *fed.feed, *options).stdout)
    (violation,) = report["violations"]
    assert (violation["kind"], violation["key"], violation["partition"]) == ("missing_row", "[1]", 0)
    assert report["counts"]["expected"] == 2


def test_verify_with_a_history_passes_what_is_complete(fed: Fed, tmp_path: Path) -> None:
    History([fed.version(2, 3, 7)]).dump(tmp_path / "history")
    fed.write(_row(fed, 2, 3, 7), *fed.markers(9))
    result = run("verify", *fed.feed, "--history", str(tmp_path / "history"), *fed.log, *fed.kafka)
    assert result.exit_code == 0, result.output


def test_a_topic_of_another_feed_is_refused(fed: Fed) -> None:
    result = run("tail", "others", *fed.feed, *fed.kafka)
    assert result.exit_code == 2
    assert "does not write others" in result.stderr
