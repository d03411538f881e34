"""Avro feeds on the command line, with a registry that wants a password; the test plays the worker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from stack.kafka import KafkaBroker
from tests.registry_server import Mood, RegistryServer
from tests.unit.cli.running import NOBODY, run
from tests.unit.client.feeds import ID, tell
from tests.unit.client.topics import create_topic, write
from tests.unit.client.written_avro import LOGIN, Written, written
from tests.unit.registry.certificates import Authority, parameter
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedState
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.jobs import jobs_topic
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics

PASSWORD = LOGIN[1]


@pytest.fixture(autouse=True)
def literal_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feeds hold passwords, as those do that older versions have stored."""
    monkeypatch.setenv("TIDEGATE_LITERAL_SECRETS", "true")


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer(login=LOGIN) as running:
        yield running


def url_of(server: RegistryServer) -> str:
    return server.url.replace("://", "://{}:{}@".format(*LOGIN))


def statement(url: str) -> str:
    return (
        "CREATE CHANGEFEED FOR accounts INTO 'kafka://127.0.0.1:9092'"
        f" WITH format=avro, confluent_schema_registry='{url}', initial_scan='no'"
    )


class Application:
    """A jobs topic, and feeds that a worker is said to have run."""

    def __init__(self, broker: KafkaBroker, app_id: str) -> None:
        create_topic(broker.bootstrap, jobs_topic(app_id), cleanup_policy="compact")
        self.bootstrap, self.app_id = broker.bootstrap, app_id
        self.kafka = ("--timeout", "60", "-b", broker.bootstrap, "--app-id", app_id)

    def has_written(self, feed: Written) -> str:
        """Put a feed's records on its topics, and the feed on the jobs topic; gives its id."""
        for target in feed.activation.targets:
            create_topic(self.bootstrap, target.topic, target.partitions)
        write(self.bootstrap, feed.records)
        definition = feed.activation.definition
        state = StateRecord(
            definition.id, FIRST_EPOCH, FeedState.RUNNING, feed.topics.start, feed.topics.targets
        )
        tell(self.bootstrap, self.app_id, DefinitionRecord(definition), state)
        return definition.id


@pytest.fixture
def application(broker: KafkaBroker, topic_prefix: str) -> Application:
    return Application(broker, topic_prefix)


@pytest.mark.broker
def test_no_output_has_a_registrys_password(server: RegistryServer, application: Application) -> None:
    created = run("feed", "create", statement(url_of(server)), "--no-wait", *application.kafka)
    feed = created.stdout.strip()
    assert created.exit_code == 0
    failed = StateRecord(ID, FIRST_EPOCH, FeedState.FAILED, error="why")
    definition = define_feed(statement(url_of(server)), ID, 1).definition
    tell(application.bootstrap, application.app_id, DefinitionRecord(definition), failed)
    outputs = [created.output]
    for command in (("list",), ("list", "--json"), ("show", feed), ("show", ID, "--json"), ("drop", ID)):
        result = run("feed", *command, *application.kafka)
        assert result.exit_code == 0
        outputs.append(result.output)
    assert "me:redacted@127.0.0.1" in outputs[3]
    assert PASSWORD not in json.dumps(outputs)


@pytest.mark.broker
def test_a_stored_description_has_no_password_and_the_definition_does(
    server: RegistryServer, application: Application
) -> None:
    """Workers need it; so whoever may read the jobs topic can."""
    run("feed", "create", statement(url_of(server)), "--no-wait", *application.kafka)
    connection = KafkaConnection(application.bootstrap)
    (record,) = OutputTopics.now(connection, [jobs_topic(application.app_id)]).records()
    stored = json.loads(record.value or b"")["definition"]
    assert PASSWORD not in stored["description"]
    assert PASSWORD in stored["options"]["confluent_schema_registry"]


@pytest.mark.broker
@pytest.mark.usefixtures("others_allowed")
def test_tail_and_verify_read_an_avro_feed_by_its_definition(
    server: RegistryServer, application: Application
) -> None:
    made = written(server, topic_prefix=application.app_id)
    feed = application.has_written(made)
    tailed = run("tail", "--feed", feed, *application.kafka)
    assert len(tailed.stdout.splitlines()) == len(made.records)
    assert ' -> {"after": ' in tailed.stdout
    assert "unreadable" not in tailed.stdout
    verified = run("verify", "--feed", feed, "--json", *application.kafka)
    assert (verified.exit_code, json.loads(verified.stdout)["verdict"]) == (0, "passed")
    server.mood = Mood.FAILS
    for command, status in (("tail", 1), ("verify", 2)):
        result = run(command, "--feed", feed, *application.kafka)
        assert result.exit_code == status
        assert "The schema registry at http://me:redacted@127.0.0.1" in result.stderr
        assert PASSWORD not in result.output


@pytest.mark.broker
def test_avro_topics_are_read_without_their_feed_too(
    server: RegistryServer, application: Application
) -> None:
    made = written(server, topic_prefix=application.app_id)
    application.has_written(made)
    topic = made.records[0].topic
    how = ("tail", topic, "--format", "avro", "-n", "1", *application.kafka)
    assert ' -> {"after": ' in run(*how, TIDEGATE_SCHEMA_REGISTRY=url_of(server)).stdout
    assert ' -> {"after": ' in run(*how, "--registry", url_of(server)).stdout
    # The variable alone does not make Avro of JSON.
    plain = run("tail", topic, "-n", "1", *application.kafka, TIDEGATE_SCHEMA_REGISTRY=url_of(server))
    assert "unreadable" in plain.stdout


def test_avro_without_a_registry_is_a_mistake() -> None:
    result = run("tail", "a", "--format", "avro", *NOBODY)
    assert result.exit_code == 2
    assert "--format avro needs --registry, or --feed" in result.stderr


@pytest.mark.broker
def test_a_statement_may_come_on_standard_input(server: RegistryServer, application: Application) -> None:
    """Where it is not among the arguments, which everyone can read."""
    created = run(
        *("feed", "create", "-", "--no-wait", *application.kafka), stdin=f"{statement(url_of(server))};\n"
    )
    shown = run("feed", "show", created.stdout.strip(), *application.kafka).stdout
    assert "http://me:redacted@127.0.0.1" in shown


def test_a_feed_with_certificates_that_cannot_be_used_is_not_created() -> None:
    authority = Authority()
    pair, other = authority.pair("a"), authority.pair("b")
    url = f"https://h?client_cert={parameter(pair.cert)}&client_key={parameter(other.key)}"
    result = run("feed", "create", statement(url), "--no-wait", *NOBODY)
    assert result.exit_code == 1
    assert "client_key of confluent_schema_registry cannot be used" in result.stderr
    assert parameter(other.key) not in result.output
