"""Tests the sentences that refuse a query before Spark starts, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import tidegate.spark.changefeed.run
from stack.kafka import KafkaBroker
from tests.e2e.topics import create
from tests.unit.cli.running import run
from tests.unit.client.topics import create_topic, delete_topic
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import StatementError
from tidegate.spark.changefeed.changefeed_query import QueryOptions, ready_query
from tidegate.spark.changefeed.run import create_feed

pytestmark = pytest.mark.broker

_PARTITIONS = 3


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(tidegate.spark.changefeed.run, "placed_session", start)


@pytest.fixture
def options(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> QueryOptions:
    create_topic(broker.bootstrap, f"{topic_prefix}raftlog", _PARTITIONS)
    return QueryOptions(
        KafkaConnection(broker.bootstrap), f"{topic_prefix}app", topic_prefix, (tmp_path / "query").as_uri()
    )


def _refused(options: QueryOptions, **changed: str) -> str:
    """Return what the command says."""
    names = {"app_id": options.app_id, "topic_prefix": options.topic_prefix, **changed}
    result = run(
        *("spark", "changefeed", "--checkpoint", options.checkpoint),
        *("-b", options.connection.bootstrap_servers),
        *("--app-id", names["app_id"], "--topic-prefix", names["topic_prefix"]),
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def test_a_log_that_is_not_there_is_named(options: QueryOptions) -> None:
    assert "has no topic other_raftlog." in _refused(options, topic_prefix="other_")


def test_the_directory_of_another_application_is_refused(options: QueryOptions) -> None:
    ready_query(options)
    assert f"belongs to the application {options.app_id}, and" in _refused(options, app_id="another")


def test_a_log_that_grew_is_refused(options: QueryOptions) -> None:
    log = ready_query(options).topics.log
    admin = AdminClient({"bootstrap.servers": options.connection.bootstrap_servers})
    admin.create_partitions([NewPartitions(log, _PARTITIONS + 1)])[log].result(30)
    assert f"{log} has 4 partitions, and had 3 when" in _refused(options)


def test_a_log_that_was_made_anew_is_refused(options: QueryOptions) -> None:
    log, bootstrap = ready_query(options).topics.log, options.connection.bootstrap_servers
    delete_topic(bootstrap, log)
    create(AdminClient({"bootstrap.servers": bootstrap}), log)
    assert f"The log {log} was deleted and created again since" in _refused(options)


def test_a_statement_that_is_given_again_goes_on_with_its_feed(options: QueryOptions) -> None:
    ready_query(options)
    jobs = Jobs(options.connection, options.app_id)
    statement = f"CREATE CHANGEFEED FOR TABLE a INTO 'kafka://{options.connection.bootstrap_servers}'"
    feed_id = create_feed(jobs, statement)
    assert create_feed(jobs, statement) == feed_id
    assert [each for each, _ in jobs.view().feeds()] == [feed_id]
    relative = f"{statement.replace('TABLE a', 'TABLE b')} WITH cursor='-1h'"
    assert create_feed(jobs, relative) == create_feed(jobs, relative), "an hour before it was created"
    with pytest.raises(StatementError, match=rf"^Nothing was created: feed {feed_id} writes to the topic a "):
        create_feed(jobs, f"{statement} WITH updated")
    jobs.drop(feed_id)
    assert create_feed(jobs, f"{statement} WITH updated") != feed_id
