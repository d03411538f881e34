"""``tidegate verify`` on a real broker."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sim.log.history import History
from tests.unit.cli.fed_topics import Fed, FedAside, Topic, fed_row
from tests.unit.cli.running import run
from tests.unit.client.feeds import definition, tell
from tests.unit.client.topics import delete_before
from tests.unit.verify.streams import at
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    ProgressRecord,
    StateRecord,
)
from tidegate.hlc import ResolvedTimestamp

pytestmark = pytest.mark.broker


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


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"TIDEGATE_SECURITY_PROTOCOL": "SASL_SSL"}, "TIDEGATE_SASL_PASSWORD"),
        ({"TIDEGATE_DESTINATIONS_FILE": "/nowhere"}, "/nowhere"),
    ],
)
def test_a_fault_of_the_command_is_no_broken_rule(
    topic: Topic, environment: dict[str, str], says: str
) -> None:
    result = run("verify", topic.name, *topic.kafka, **environment)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe"),
        (RuntimeError("nobody foresaw this"), "RuntimeError: nobody foresaw this"),
    ],
)
def test_no_error_of_its_own_looks_like_a_broken_rule(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    topic.write(topic.row(2, 5), *topic.markers(9))
    monkeypatch.setattr("tidegate.cli.verify.echo", fail)
    result = run("verify", topic.name, *topic.kafka)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_full_disk_is_no_broken_rule(topic: Topic) -> None:
    topic.write(topic.row(2, 5), *topic.markers(9))
    command = [sys.executable, "-m", "tidegate.cli", "verify", topic.name, *topic.kafka]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_audit_that_is_interrupted_has_found_nothing(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegate.cli.verify.choose_reading", interrupt)
    result = run("verify", topic.name, *topic.kafka)
    assert result.exit_code == 2
    assert "ended before it was done" in result.stderr


def test_a_horizon_above_the_markers_is_refused(topic: Topic) -> None:
    topic.write(*topic.markers(9), topic.row(2, 5))
    result = run("verify", topic.name, "--horizon", "-1h", *topic.kafka)
    assert result.exit_code == 2
    assert "--horizon: it is not negative" in result.stderr


def test_verify_forgets_beyond_the_horizon(topic: Topic) -> None:
    marks = [record for ms in (5, 2_000, 4_000, 6_000) for record in topic.markers(ms)]
    topic.write(topic.row(2, 1), *marks, topic.row(2, 1))
    assert run("verify", topic.name, *topic.kafka).exit_code == 0
    assert run("verify", topic.name, "--horizon", "1s", *topic.kafka).exit_code == 2


def test_verify_of_a_feed_audits_its_topics_from_its_start(fed: Fed) -> None:
    fed.write(fed_row(fed, 2, 2, 7), *fed.markers(9))
    result = run("verify", *fed.feed, "--json", *fed.kafka)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["violation_counts"] == {"below_start": 1}


def test_verify_reads_the_markers_of_a_topic_of_their_own(fed_aside: FedAside) -> None:
    fed = fed_aside
    fed.write(fed_row(fed, 2, 3, 7), *fed.both(9, 0, 1), fed_row(fed, 2, 10, 8))
    for arguments in (fed.feed, (fed.name, *fed.feed)):
        result = run("verify", *arguments, *fed.kafka)
        assert result.exit_code == 0, result.stdout + result.stderr
        assert "2 rows (0 repeated) of 1 keys and 2 markers on 4 partitions" in result.stdout
        assert "complete up to 9000000.0000000000" in result.stdout


def test_verify_finds_a_marker_that_names_rows_which_are_not_there(fed_aside: FedAside) -> None:
    fed_aside.write(fed_row(fed_aside, 2, 3, 7), *fed_aside.both(9, 0, 2))
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
    fed.write(fed_row(fed, 2, 4, 7), *fed.both(9, 0, 1))
    result = run("verify", *fed.feed, "--history", str(tmp_path / "history"), *fed.log, *fed.kafka)
    assert result.exit_code == 2, result.stdout + result.stderr
    assert "not checked (MISSING_ROW): 2 partitions are compacted" in result.stdout


def test_verify_with_a_history_finds_what_is_missing(fed: Fed, tmp_path: Path) -> None:
    History([fed.version(2, 2, 6), fed.version(2, 3, 7), fed.version(1, 4, 8)]).dump(tmp_path / "history")
    fed.write(fed_row(fed, 2, 3, 7), *fed.markers(9))
    options = ("--history", str(tmp_path / "history"), "--json", *fed.log, *fed.kafka)
    report = json.loads(run("verify", *fed.feed, *options).stdout)
    (violation,) = report["violations"]
    assert (violation["kind"], violation["key"], violation["partition"]) == ("missing_row", "[1]", 0)
    assert report["counts"]["expected"] == 2


def test_verify_with_a_history_passes_what_is_complete(fed: Fed, tmp_path: Path) -> None:
    History([fed.version(2, 3, 7)]).dump(tmp_path / "history")
    fed.write(fed_row(fed, 2, 3, 7), *fed.markers(9))
    result = run("verify", *fed.feed, "--history", str(tmp_path / "history"), *fed.log, *fed.kafka)
    assert result.exit_code == 0, result.output


def test_a_topic_of_another_feed_is_refused(fed: Fed) -> None:
    result = run("tail", "others", *fed.feed, *fed.kafka)
    assert result.exit_code == 2
    assert "does not write others" in result.stderr


def test_a_feed_on_the_topic_of_one_that_was_dropped_is_audited_by_its_own_records(fed: Fed) -> None:
    former = FeedId("0former")
    state = StateRecord(former, FIRST_EPOCH, FeedState.RUNNING, at(1), fed.targets)
    high = ProgressRecord(former, FIRST_EPOCH, ResolvedTimestamp(at(2)), {})
    tell(fed.bootstrap, fed.prefix, DefinitionRecord(definition(former)), state, high, DropRecord(former, 0))
    fed.write(fed_row(fed, 2, 2, 7), *fed.markers(2), fed_row(fed, 2, 5, 8), *fed.markers(9))
    result = run("verify", *fed.feed, "--json", *fed.kafka)
    assert result.exit_code == 0, result.stdout
    assert json.loads(result.stdout)["counts"]["of_other_feeds"] == 3
