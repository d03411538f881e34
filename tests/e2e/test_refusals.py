"""A broker that forbids something: a sentence with its words, and only what needs it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from stack.kafka import KafkaBroker
from tests.e2e.scenario import Scenario, bank_log
from tests.feeds import activation
from tests.shared_broker import PATIENT
from tests.unit.client.topics import create_topic
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions
from tidegate.client.jobs import Jobs
from tidegate.worker.process.ending import EXIT_REFUSED

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_TOLD_S = 60.0
_SETTINGS = {
    **PATIENT,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(settings=_SETTINGS) as running:
        yield running


@pytest.fixture
def strict(strict_broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(strict_broker.bootstrap, topic_prefix, tmp_path, bank_log(seed=7, transactions=100))
    yield made
    made.close()


def forbid(scenario: Scenario, topic: str, forbidden: AclOperation) -> None:
    """Deny everybody this operation on the topic; a topic with a rule needs one that allows the others.

    Returns once the broker tells of the rules: it takes them a moment after the answer.
    """
    rules = [
        _everybody(topic, forbidden, AclPermissionType.DENY),
        _everybody(topic, AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    for made in admin.create_acls(rules).values():
        made.result(30)
    deadline = time.monotonic() + _TOLD_S
    while len(admin.describe_acls(_rules_of(topic)).result(30)) < len(rules):
        assert time.monotonic() < deadline, f"{topic} has got rules, and the broker does not tell of them"
        time.sleep(0.1)


def _rules_of(topic: str) -> AclBindingFilter:
    pattern, any_of_them = ResourcePatternType.LITERAL, (AclOperation.ANY, AclPermissionType.ANY)
    return AclBindingFilter(ResourceType.TOPIC, topic, pattern, None, None, *any_of_them)


def _everybody(topic: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, topic, pattern, "User:*", "*", operation, permission)


@pytest.mark.parametrize(
    ("forbidden", "asked"),
    [
        (AclOperation.DESCRIBE, "partitions"),
        (AclOperation.DESCRIBE_CONFIGS, "configuration"),
    ],
)
def test_a_feed_whose_topic_may_not_be_looked_at_fails_alone(
    strict: Scenario, forbidden: AclOperation, asked: str
) -> None:
    worker = strict.start_worker()
    strict.create_feed(worker)
    topic = f"{strict.prefix}closed-accounts"
    create_topic(strict.bootstrap, topic, 1)
    forbid(strict, topic, forbidden)
    options = FeedOptions(
        updated=True,
        resolved_interval_ns=0,
        topic_prefix=f"{strict.prefix}closed-",
        existing_topics=ExistingTopics.USE,
    )
    definition = activation(
        strict.log.tables, options, feed_id="closed", sink_uri=f"kafka://{strict.bootstrap}"
    ).definition
    jobs = Jobs(strict.connection, strict.app_id)
    jobs.create(definition)
    feed = jobs.wait(definition.id, 60)
    assert feed.status is FeedState.FAILED, worker.text
    assert feed.state is not None
    assert f"({asked} of the topic {topic})" in feed.state.error
    assert "authorization failed" in feed.state.error
    strict.append()
    strict.wait_until_covered(worker)
    assert worker.stop() == 0, worker.text


@pytest.mark.parametrize(
    ("name", "forbidden"),
    [("raftlog", AclOperation.DESCRIBE), ("app-jobs", AclOperation.DESCRIBE_CONFIGS)],
)
def test_a_worker_that_may_not_look_at_its_topics_refuses_with_a_sentence(
    strict: Scenario, name: str, forbidden: AclOperation
) -> None:
    topic = f"{strict.prefix}{name}"
    with strict.start_worker() as first:
        first.wait_for("the worker starts")
    forbid(strict, topic, forbidden)
    worker = strict.start_worker()
    assert worker.wait() == EXIT_REFUSED, worker.text
    assert f"of the topic {topic}): " in worker.text
    assert "authorization failed" in worker.text
    assert "Traceback" not in worker.text
