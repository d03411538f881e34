"""Feeds that cannot be, and feeds that end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.scenario import HEAD_RECORDS, Scenario
from tests.feeds import activation
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.definition.options import ExistingTopics, FeedOptions
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def define(scenario: Scenario, feed_id: str, *, sink_uri: str = "", prefix: str = "") -> FeedDefinition:
    options = FeedOptions(updated=True, resolved_interval_ns=0, topic_prefix=prefix or scenario.prefix)
    uri = sink_uri or f"kafka://{scenario.bootstrap}"
    return activation(scenario.log.tables, options, feed_id=feed_id, sink_uri=uri).definition


def create(scenario: Scenario, definition: FeedDefinition) -> FeedView:
    jobs = Jobs(scenario.connection, scenario.app_id)
    jobs.create(definition)
    return jobs.wait(definition.id, 60)


def test_feeds_that_cannot_be_fail_with_a_sentence_and_hold_nobody(scenario: Scenario) -> None:
    worker = scenario.start_worker(output_topics=f"{scenario.prefix}*")
    scenario.create_feed(worker)
    admin = AdminClient({"bootstrap.servers": scenario.bootstrap})
    compacted = NewTopic(f"{scenario.prefix}c-accounts", 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([compacted])[compacted.topic].result(30)
    on_compacted = define(scenario, "compacted", prefix=f"{scenario.prefix}c-")
    on_compacted = replace(
        on_compacted, options=replace(on_compacted.options, existing_topics=ExistingTopics.USE)
    )
    unknown = replace(define(scenario, "unknown", prefix=f"{scenario.prefix}u-"), tables=())
    unknown = replace(unknown, tables=(scenario.log_table("nothing"),))
    for definition, reason in {
        define(
            scenario, "webhook", sink_uri="webhook-https://elsewhere"
        ): "sink webhook-https is not supported",
        define(scenario, "second"): "feed bank writes to the topic",
        define(scenario, "existing", prefix=f"{scenario.prefix}c-"): "exists already, and no feed of this",
        define(scenario, "outside", prefix=f"not-{scenario.prefix}"): "the operator allows only topics like",
        on_compacted: "has cleanup.policy=compact",
        unknown: 'has a descriptor of defaultdb.public."nothing"',
    }.items():
        feed = create(scenario, definition)
        assert feed.status is FeedState.FAILED
        assert feed.state is not None
        assert reason in feed.state.error
    scenario.append()
    scenario.wait_until_covered(worker)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")], ids="-".join)
def test_of_two_feeds_asked_for_at_once_one_gets_the_topic(
    scenario: Scenario, order: tuple[str, str]
) -> None:
    scenario.append(HEAD_RECORDS)
    worker = scenario.start_worker()
    worker.wait_for("the worker starts")
    jobs = Jobs(scenario.connection, scenario.app_id)
    for feed_id in order:
        jobs.create(define(scenario, feed_id))
    status = {feed_id: jobs.wait(FeedId(feed_id), 60).status for feed_id in order}
    assert sorted(one.value for one in status.values()) == ["failed", "running"], worker.text


def test_a_feed_says_that_it_waits_for_the_topics_of_one_that_has_ended(scenario: Scenario) -> None:
    with scenario.start_worker() as first:
        scenario.create_feed(first)
        assert first.stop() == 0, first.text
    jobs = Jobs(scenario.connection, scenario.app_id)
    jobs.drop(FeedId("bank"))
    jobs.create(define(scenario, "heir"))
    worker = scenario.start_worker()
    heir = jobs.wait(FeedId("heir"), 60)
    assert heir.status is FeedState.RUNNING, worker.text
    assert heir.state is not None
    assert heir.state.error == ""
    assert "the feed bank had its topics and has ended" in worker.text


def test_a_second_feed_gets_rows_from_its_start_on(scenario: Scenario) -> None:
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    scenario.append(100)
    second = create(scenario, define(scenario, "second", prefix=f"{scenario.prefix}second-"))
    assert second.status is FeedState.RUNNING
    scenario.append()
    scenario.wait_until_covered(worker)
    scenario.follow(second, f"{scenario.prefix}second-accounts")
    scenario.wait_until_covered(worker)


def test_a_dropped_feed_gets_nothing_more_and_frees_its_topic(scenario: Scenario) -> None:
    worker = scenario.start_worker()
    scenario.create_feed(worker)
    jobs = Jobs(scenario.connection, scenario.app_id)
    jobs.drop(FeedId("bank"))
    jobs.wait(FeedId("bank"), 60)
    worker.wait_until(lambda: worker.ask("/status")["feeds"] == [], "the frontier to let go")
    heir = create(scenario, define(scenario, "heir"))
    assert heir.status is FeedState.RUNNING
    scenario.follow(heir, scenario.topic)
    scenario.append()
    scenario.wait_until_covered(worker)
