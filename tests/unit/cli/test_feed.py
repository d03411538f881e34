"""``tidegate feed`` on a real broker; the test plays the worker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from stack.kafka import KafkaBroker
from tests.unit.cli.running import run
from tests.unit.client.feeds import ID, STATEMENT, definition, failed, progress, running, succeeded, tell
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord
from tidegate.cli.main import cli
from tidegate.client.jobs import Jobs, jobs_topic
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.kafka.topics import TOMBSTONES_KEPT_MS, Topics
from tidegate.errors import BrokerUnavailable
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker


@pytest.fixture
def kafka(broker: KafkaBroker, topic_prefix: str) -> tuple[str, ...]:
    """The options of an application whose jobs topic is there."""
    create_topic(broker.bootstrap, jobs_topic(topic_prefix), cleanup_policy="compact")
    return ("--timeout", "60", "-b", broker.bootstrap, "--app-id", topic_prefix)


def test_create_prints_the_id_alone_on_standard_output(kafka: tuple[str, ...]) -> None:
    created = run("feed", "create", STATEMENT, "--no-wait", *kafka)
    feed = created.stdout.strip()
    assert created.exit_code == 0
    shown = json.loads(run("feed", "show", feed, "--json", *kafka).stdout)
    assert shown["status"] == "pending"
    assert shown["full_table_names"] == ["defaultdb.public.accounts"]


def test_a_feed_that_may_have_been_created_is_named(
    kafka: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its id nobody could tell it from the one that a second try creates."""
    create = Jobs.create

    def lose_the_answer(jobs: Jobs, defined: FeedDefinition) -> None:
        create(jobs, defined)
        raise BrokerUnavailable("Kafka did not confirm it.")

    monkeypatch.setattr(Jobs, "create", lose_the_answer)
    created = run("feed", "create", STATEMENT, "--no-wait", *kafka)
    (there,) = json.loads(run("feed", "list", "--json", *kafka).stdout)
    assert (created.exit_code, created.stdout) == (1, "")
    assert f"Feed {there['job_id']} may have been created all the same" in created.stderr


def test_a_statement_that_is_not_utf8_is_a_sentence(kafka: tuple[str, ...]) -> None:
    created = CliRunner().invoke(cli, ["feed", "create", "-", *kafka], input=b"CREATE \xff")
    assert created.exit_code == 1
    assert "The statement on standard input is not UTF-8" in created.stderr


def test_a_cursor_in_the_future_is_refused_before_anything_is_created(kafka: tuple[str, ...]) -> None:
    statement = "CREATE CHANGEFEED FOR a INTO 'kafka://k' WITH cursor = '2261-01-01'"
    created = run("feed", "create", statement, "--no-wait", *kafka)
    assert created.exit_code == 1
    assert "cannot specify timestamp in the future: 9183110400000000000.0000000000" in created.stderr


_CURSOR = "cursor = '2000000000000.0000000000'"
_BEGINNINGS = {
    "initial_scan = 'no'": "The feed begins with what is committed from now on.",
    "updated": "The feed begins with a scan of its tables as of its start; changes follow.",
    "initial_scan = 'only'": "The feed is a scan of its tables as of its start, and ends with it.",
    _CURSOR: "The feed begins with what was committed after the cursor, 2000000000000.0000000000 "
    "(1970-01-01 00:33:20.000000+00:00).",
    f"initial_scan, {_CURSOR}": "The feed begins with a scan of its tables as of the cursor, "
    "2000000000000.0000000000 (1970-01-01 00:33:20.000000+00:00); changes follow.",
}


@pytest.mark.parametrize(("options", "said"), _BEGINNINGS.items())
def test_create_says_where_the_feed_begins(kafka: tuple[str, ...], options: str, said: str) -> None:
    statement = f"CREATE CHANGEFEED FOR a INTO 'kafka://k' WITH {options}"
    created = run("feed", "create", statement, "--no-wait", *kafka)
    assert (created.exit_code, created.stderr) == (0, f"{said}\n")


def test_create_waits_and_says_when_no_worker_comes(kafka: tuple[str, ...]) -> None:
    created = run("feed", "create", STATEMENT, "--wait-seconds", "0.3", *kafka)
    assert created.exit_code == 1
    assert f"Feed {created.stdout.strip()} is still pending after 0.3 s" in created.stderr


def test_create_waits_for_a_first_worker_and_then_says_how_to_start_one(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    kafka = ("-b", broker.bootstrap, "--app-id", topic_prefix)
    created = run("feed", "create", STATEMENT, "--wait-seconds", "0.3", *kafka)
    assert (created.exit_code, created.stdout) == (1, "")
    assert f"Waiting for the first worker of the application {topic_prefix} ..." in created.stderr
    assert "start one with `tidegate worker`" in created.stderr


def test_create_without_waiting_stores_a_feed_before_the_first_worker_has_run(
    broker: KafkaBroker, topic_prefix: str
) -> None:
    """The topic is as a worker makes it, so that the first worker starts."""
    kafka = ("-b", broker.bootstrap, "--app-id", topic_prefix)
    created = run("feed", "create", STATEMENT, "--no-wait", *kafka)
    assert created.exit_code == 0
    assert f"no worker has created its topic {topic_prefix}-jobs, so this command has" in created.stderr
    (shown,) = json.loads(run("feed", "list", "--json", *kafka).stdout)
    assert (shown["job_id"], shown["status"]) == (created.stdout.strip(), "pending")
    admin = open_admin(KafkaConnection(broker.bootstrap), 10.0)
    admin.ensure(Topics(topic_prefix, f"{topic_prefix}-").shared_specs(3))
    assert admin.config(f"{topic_prefix}-jobs")["delete.retention.ms"] == str(TOMBSTONES_KEPT_MS)
    again = run("feed", "create", STATEMENT, "--no-wait", *kafka)
    assert "so this command has" not in again.stderr
    assert len(json.loads(run("feed", "list", "--json", *kafka).stdout)) == 2


@pytest.mark.parametrize(
    "command",
    [("list",), ("show", "0other"), ("drop", "0other")],
    ids=lambda command: command[0],
)
def test_without_an_application_other_commands_wait_for_nobody(
    broker: KafkaBroker, topic_prefix: str, command: tuple[str, ...]
) -> None:
    result = run("feed", *command, "-b", broker.bootstrap, "--app-id", topic_prefix)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Waiting" not in result.stderr
    assert "start one with `tidegate worker`" in result.stderr


def test_a_feed_that_is_moved_says_where_to_and_who_has_to_run(
    broker: KafkaBroker, kafka: tuple[str, ...]
) -> None:
    tell(broker.bootstrap, kafka[-1], DefinitionRecord(definition()), running(), progress())
    result = run("feed", "move", ID, "--to", "spark", "--wait-seconds", "0.5", *kafka)
    assert f"Feed {ID} continues on spark." in result.stderr
    assert (
        "is still pending after 0.5 s; it goes on as soon as the application's Spark query" in result.stderr
    )
    (shown,) = json.loads(run("feed", "list", "--json", *kafka).stdout)
    assert (shown["status"], shown["running_status"], shown["engine"]) == (
        "pending",
        "moving to spark",
        "spark",
    )
    again = run("feed", "move", ID, "--to", "spark", *kafka)
    assert (again.exit_code, f"Feed {ID} runs on spark already." in again.stderr) == (1, True)


def test_list_shows_each_feed_on_a_line(broker: KafkaBroker, kafka: tuple[str, ...]) -> None:
    other = FeedId("1zzzzzzzz-0000000")
    tell(broker.bootstrap, kafka[-1], DefinitionRecord(definition()), running(), progress())
    tell(broker.bootstrap, kafka[-1], DefinitionRecord(definition(other)), failed("no such table", other))
    lines = run("feed", "list", *kafka).stdout.splitlines()
    titles = "ID STATUS ENGINE HIGH WATER HIGH WATER (UTC) TABLES TOPICS SINK ERROR"
    assert " ".join(lines[0].split()) == titles
    assert lines[1].split() == [
        ID,
        "running",
        "workers",
        "3000000000007.0000000000",
        "1970-01-01",
        "00:50:00.000000+00:00",
        "defaultdb.public.accounts",
        "accounts",
        "kafka://127.0.0.1:9092",
    ]
    assert lines[2].split()[:2] == [other, "failed"]
    assert lines[2].rstrip().endswith("no such table")


@pytest.mark.parametrize(
    ("begins", "told", "shown"),
    [
        ({"initial_scan": "yes"}, [running()], "running: initial scan"),
        ({"initial_scan": "only"}, [running()], "running: initial scan"),
        ({"cursor": Timestamp(5)}, [running()], "running: catching up"),
        ({"cursor": Timestamp(5), "initial_scan": "yes"}, [running()], "running: initial scan"),
        ({"initial_scan": "yes"}, [running(), progress()], "running"),
        ({"cursor": Timestamp(5)}, [running(), progress()], "running"),
        ({}, [running()], "running"),
        ({"initial_scan": "yes"}, [], "pending"),
        ({"initial_scan": "yes"}, [failed("no such table")], "failed"),
        ({"initial_scan": "only"}, [progress(), succeeded()], "succeeded"),
    ],
)
def test_list_and_show_say_what_a_feed_without_a_high_water_does(
    broker: KafkaBroker, kafka: tuple[str, ...], begins: dict[str, Any], told: list[JobRecord], shown: str
) -> None:
    tell(broker.bootstrap, kafka[-1], DefinitionRecord(definition(**begins)), *told)
    line = run("feed", "list", *kafka).stdout.splitlines()[1]
    assert line.removeprefix(ID).strip().startswith(f"{shown}  ")
    row = json.loads(run("feed", "show", ID, "--json", *kafka).stdout)
    assert [row["status"], row["running_status"]] == [*shown.split(": "), ""][:2]
    assert row["running_status"] == "" or row["high_water_timestamp"] is None


def test_a_list_of_nothing_says_so(kafka: tuple[str, ...]) -> None:
    assert run("feed", "list", *kafka).stdout == "There are no feeds.\n"
    assert json.loads(run("feed", "list", "--json", *kafka).stdout) == []


def test_show_has_every_column_and_no_secret(broker: KafkaBroker, kafka: tuple[str, ...]) -> None:
    secret = replace(definition(), sink_uri="kafka://k:9092?sasl_user=ann&sasl_password=hush")
    tell(broker.bootstrap, kafka[-1], DefinitionRecord(secret), running(), progress())
    text = run("feed", "show", ID, *kafka).stdout
    fields = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert fields["job_id"] == ID
    assert fields["start_timestamp"] == "2000000000000.0000000000"
    assert fields["created"] == "1970-01-01 00:16:40.000000+00:00"
    assert fields["description"].startswith("CREATE CHANGEFEED FOR TABLE defaultdb.public.accounts INTO")
    assert "hush" not in text


def test_drop_ends_a_feed(broker: KafkaBroker, kafka: tuple[str, ...]) -> None:
    tell(broker.bootstrap, kafka[-1], DefinitionRecord(definition()), running())
    assert run("feed", "drop", ID, *kafka).exit_code == 0
    assert json.loads(run("feed", "list", "--json", *kafka).stdout)[0]["status"] == "dropped"


def test_an_unknown_feed_is_named(kafka: tuple[str, ...]) -> None:
    result = run("feed", "show", "0other", *kafka)
    assert (result.exit_code, result.stderr) == (
        1,
        "There is no feed 0other; `tidegate feed list` shows those that there are.\n",
    )
