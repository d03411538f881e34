r"""No command lets the text of others steer the terminal of whoever runs it.

Each command that prints is run on a feed whose definition, state, columns, rows and log hold sequences that a
terminal would follow. ``tests/unit/cli/test_printing.py`` says which modules print.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

import pytest
from click.testing import Result

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.unit.cli.running import run
from tests.unit.client.subscribe.hand_feed import ACCOUNTS, OPTIONS, HandFeed
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, FeedState, TableName
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.rows import Column, parse_sql_type
from tidegate.worker.operations.report import ForeignReport, PartitionReport, WorkerReport

pytestmark = pytest.mark.broker

#: A title for the window, a cleared screen in both forms, a return to the line's begin, and DEL.
_HOSTILE: Final = "\x1b]0;owned\x07\x1b[2J\x9b2J\r\x7f"
_ESCAPED: Final = r"\u001b]0;owned\u0007\u001b[2J\u009b2J\u000d\u007f"
_FOLLOWED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TABLE: Final = replace(
    ACCOUNTS.descriptor,
    columns=(*ACCOUNTS.descriptor.columns, Column(9, f"c{_HOSTILE}", parse_sql_type("STRING"))),
    families=(replace(ACCOUNTS.descriptor.families[0], column_ids=(1, 2, 3, 9)),),
)
#: A table whose keys are texts.
_NAMES: Final = HandTable.of(105, f"names{_HOSTILE}", "id STRING, v STRING")


class _HostileFeed(HandFeed):
    """Two feeds: ``feed``, whose rows can be read, and ``other``, which has failed."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        super().__init__(bootstrap, prefix, descriptors=(_TABLE,))
        self.write(0, 5, 1, {"id": 1, "balance": 10, "note": _HOSTILE, f"c{_HOSTILE}": _HOSTILE})
        self.mark(7)
        options = replace(OPTIONS, key_column=f"k{_HOSTILE}", topic_prefix=prefix)
        other = activation([_TABLE], options, feed_id="other").definition
        other = replace(other, tables=(TableName(f"t{_HOSTILE}"),), description=f"CREATE {_HOSTILE}")
        state = StateRecord(FeedId("other"), FIRST_EPOCH, FeedState.FAILED, error=f"row {_HOSTILE}")
        for record in (DefinitionRecord(other), state):
            self.producer.produce(f"{self.app_id}-jobs", record.to_bytes(), record.key)
        self._write_log()
        create_topic(bootstrap, f"{prefix}odd")
        self.producer.produce(f"{prefix}odd", _HOSTILE.encode(), _HOSTILE.encode(), 0)
        self.flush()

    def _write_log(self) -> None:
        """A range with a row under a hostile key, one that writes below what it has closed, and nonsense."""
        log = HandLog(partitions=1)
        log.describe(_NAMES)
        range_ = log.open_range(1, _NAMES.span)
        range_.apply(_NAMES.put(3, _HOSTILE, _HOSTILE), close=5)
        range_.apply(_NAMES.put(4, _HOSTILE, _HOSTILE))
        log.write_bytes(0, _HOSTILE.encode(), _HOSTILE.encode())
        for record in log.partitions[0]:
            self.producer.produce(
                f"{self.prefix}raftlog", record.value, record.key, 0, timestamp=record.timestamp
            )

    def run(self, *arguments: str, log: bool = False, app: bool = True) -> Result:
        """The command with the options of this application, for a wide terminal."""
        kafka = ["-b", self.connection.bootstrap_servers]
        kafka += ["--app-id", self.app_id] if app else []
        return run(*arguments, *kafka, *(["--topic-prefix", self.prefix] if log else []), COLUMNS="400")


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> _HostileFeed:
    return _HostileFeed(broker.bootstrap, topic_prefix)


@pytest.fixture
def worker() -> Iterator[str]:
    """The address of a worker whose answers quote what others wrote."""
    report = WorkerReport(
        f"app{_HOSTILE}",
        None,
        f"log{_HOSTILE}",
        1,
        stall_alarm_ms=1_000,
        partitions=(PartitionReport(0, f"held {_HOSTILE}", next_offset=1),),
        foreign=(ForeignReport(f"topic{_HOSTILE}", 3, 0, 17, _HOSTILE),),
    ).as_json()

    class Worker(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(report | {f"x{_HOSTILE}": [{f"y{_HOSTILE}": 1}]}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Worker) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def assert_shown(result: Result, *, escaped: bool = True) -> None:
    """``escaped``: the hostile text has come that far, and stands there as it should."""
    printed = result.stdout + result.stderr
    assert printed, "it says nothing"
    found = _FOLLOWED.search(printed)
    assert found is None, printed[max(0, found.start() - 40) : found.end() + 40]
    if escaped:
        assert _ESCAPED in printed or _ESCAPED.replace(r"\u000d", r"\r") in printed, printed


def test_feeds_are_listed_and_shown(feed: _HostileFeed) -> None:
    assert_shown(feed.run("feed", "list"))
    assert_shown(feed.run("feed", "show", "other"))
    assert_shown(feed.run("feed", "list", "--json"))
    assert_shown(feed.run("feed", "show", "other", "--json"))


def test_commands_that_change_a_feed_say_what_they_did(feed: _HostileFeed) -> None:
    assert_shown(feed.run("feed", "move", "feed", "--to", "spark", "--no-wait"), escaped=False)
    assert_shown(feed.run("feed", "move", "other", "--to", "spark", "--no-wait"), escaped=False)
    assert_shown(feed.run("feed", "accept-cluster", "other"), escaped=False)
    assert_shown(feed.run("feed", "drop", "other"), escaped=False)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE CHANGEFEED FOR \"{}\" INTO 'kafka://h'",
        "CREATE CHANGEFEED FOR a INTO 'kafka://h' WITH key_column='{}', unordered",
        "CREATE {} CHANGEFEED",
        "CREATE CHANGEFEED FOR a{} INTO 'kafka://h'",
    ],
)
def test_a_statement_is_refused_by_a_sentence_that_can_be_shown(feed: _HostileFeed, statement: str) -> None:
    created = feed.run("feed", "create", "--no-wait", statement.format(_HOSTILE))
    assert created.exit_code == 1
    assert_shown(created, escaped=False)


def test_records_and_audits_are_shown(feed: _HostileFeed) -> None:
    assert_shown(feed.run("tail", feed.topic))
    assert_shown(feed.run("tail", "--feed", "feed"))
    assert_shown(feed.run("tail", f"{feed.prefix}odd"), escaped=False)
    assert_shown(feed.run("tail", "--feed", "other"), escaped=False)
    for topic in (feed.topic, f"{feed.prefix}odd"):
        assert_shown(feed.run("verify", topic, log=True), escaped=False)
        assert_shown(feed.run("verify", topic, "--json", log=True), escaped=False)


def test_rows_of_a_subscription_are_shown(feed: _HostileFeed) -> None:
    arguments = ("subscribe", "SUBSCRIBE accounts", "--batches", "1", "--format")
    assert_shown(feed.run(*arguments, "table", log=True))
    lines = feed.run(*arguments, "json", log=True)
    assert_shown(lines, escaped=False)
    (row,) = map(json.loads, lines.stdout.splitlines())
    assert (row["note"], row[f"c{_HOSTILE}"]) == (_HOSTILE, _HOSTILE)


def test_csv_in_a_pipe_is_exact(feed: _HostileFeed) -> None:
    result = feed.run("subscribe", "SUBSCRIBE accounts", "--batches", "1", "--format", "csv", log=True)
    assert _HOSTILE in result.stdout_bytes.decode()


def test_what_a_worker_reports_is_shown(feed: _HostileFeed, worker: str) -> None:
    assert_shown(run("status", "--url", worker))
    assert_shown(run("status", "--url", worker, "--json"))
    for form in ("text", "json"):
        assert_shown(feed.run("why", "other", "--url", worker, "--format", form))
        assert_shown(feed.run("why", "feed", "--url", worker, "--format", form), escaped=False)


def test_the_log_is_shown(feed: _HostileFeed) -> None:
    for form in ("text", "json"):
        assert_shown(feed.run("debug", "rangefeed", "--format", form, log=True, app=False), escaped=False)
    assert_shown(feed.run("debug", "check-log", log=True, app=False), escaped=False)
    assert_shown(feed.run("debug", "check-log", "--json", log=True, app=False), escaped=False)
