"""Schema registries that are away, are none, let us not in, or refuse: what is said, and who waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.e2e.avro_feeds import JSON, ShopFeeds, avro, metric, wait_for
from tests.e2e.downstream import shop_log
from tests.e2e.scenario import Scenario
from tests.e2e.worker_process import WorkerProcess
from tests.registry_server import Mood, RegistryServer, Reply
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.changefeed.encoding.confluent import SubjectSchema, unframe
from tidegate.client.output import OutputTopics
from tidegate.errors import InputError
from tidegate.processor.reference import content_id
from tidegate.registry.known_registries import SchemaRegistries

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("others_allowed")]

#: What a feed says of a registry that answers so.
_AWAY = {
    "fails": (Mood.FAILS, "Error in the backend data store"),
    "busy": (Mood.BUSY, "Slow down"),
    "page": (Mood.HTML, "is no schema registry"),
    "other": (Mood.OTHER_JSON, "is no schema registry"),
    "silent": (Mood.NOTHING, "did not answer"),
}
_REFUSED = {
    "login": (Mood.REFUSES_LOGIN, "does not permit"),
    "forbidden": (Mood.FORBIDS, "User is not allowed to WRITE"),
}


@pytest.fixture
def shop(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[ShopFeeds]:
    """A shop whose table gets a column on the way, and no worker."""
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, shop_log(seed=12))
    yield ShopFeeds(made)
    made.close()


def _status_names(worker: WorkerProcess, feed: str) -> bool:
    waits = worker.ask("/status")["schema_registry_waits"]
    return any(wait["feed"] == feed and wait["cause"] for wait in waits)


def _waits(worker: WorkerProcess) -> bool:
    return metric(worker, "tidegate_schema_waiting_partitions") > 0


def _ids(registry: RegistryServer) -> set[int]:
    """The ids that it has given."""
    texts = [text for subject in set(registry.registrations) for text in registry.schemas(subject)]
    return {content_id(SubjectSchema("", text)) for text in texts}


def _begun(shop: ShopFeeds, registry: RegistryServer) -> WorkerProcess:
    """A worker with a feed of either kind that has read up to the new column."""
    worker = shop.scenario.start_worker()
    shop.scenario.write_head(worker)
    shop.created("avro", avro(f"{registry.url}?timeout=2s"))
    shop.created("json", JSON)
    shop.append_up_to_the_new_column()
    value = f"{shop.scenario.prefix}avro-items-value"
    wait_for(lambda: len(registry.schemas(value)) == 2, "the rows' first schema")
    return worker


def test_a_feed_without_its_registry_is_pending_with_a_sentence_and_holds_nobody(
    shop: ShopFeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_LITERAL_SECRETS", "true")  # as older versions stored them
    scenario = shop.scenario
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
        nobody.close()
        registries = {name: stack.enter_context(RegistryServer()) for name in (*_AWAY, *_REFUSED)}
        for name, registry in registries.items():
            registry.mood = {**_AWAY, **_REFUSED}[name][0]
        worker = scenario.start_worker()
        scenario.write_head(worker)
        shop.ask_for("nowhere", avro(f"http://user:hush@127.0.0.1:{port}"))
        for name, registry in registries.items():
            shop.ask_for(name, avro(f"{registry.url}?timeout=2s"))
        beside = shop.created("json", JSON)
        for name, (_, words) in {**_AWAY, "nowhere": (None, "does not answer")}.items():
            wait_for(lambda: words in shop.listed(FeedId(name))["error"], f"the sentence of {name}")  # noqa: B023
            shown = shop.listed(FeedId(name))
            assert shown["status"] == "pending"
            assert shown["error"].startswith("waiting for its schema registry. ")
            assert "hush" not in str(shown)
        for name, (_, words) in _REFUSED.items():
            view = shop.jobs.wait(FeedId(name), 60)
            assert (view.status, words in shop.listed(FeedId(name))["error"]) == (FeedState.FAILED, True)
        scenario.append()
        shop.wait_until_covered(worker, beside)
        with pytest.raises(InputError):  # nothing is written half: not even its topic is there
            OutputTopics.now(scenario.connection, [f"{scenario.prefix}nowhere-items"])
        shop.jobs.drop(FeedId("nowhere"))
        wait_for(lambda: shop.listed(FeedId("nowhere"))["error"] == "", "the end of the dropped feed")
        assert shop.listed(FeedId("nowhere"))["status"] == "dropped"
        for name in _AWAY:
            registries[name].mood = Mood.WELL
        for name in _AWAY:
            shop.running(FeedId(name))
        assert worker.stop() == 0, worker.text


@pytest.mark.parametrize("mood", [Mood.FAILS, Mood.NOTHING], ids=lambda mood: mood.name)
def test_a_registry_that_goes_away_is_waited_for_by_who_needs_it_whoever_dies(
    shop: ShopFeeds, mood: Mood
) -> None:
    scenario = shop.scenario
    with RegistryServer() as registry:
        first = _begun(shop, registry)
        feed, beside = shop.running(FeedId("avro")), shop.running(FeedId("json"))
        registry.mood = mood
        scenario.append()
        first.wait_until(lambda: _waits(first), "a partition that waits")
        first.kill()
        second = scenario.start_worker()
        second.wait_for("the worker starts")
        second.wait_until(lambda: _waits(second), "the same again")
        if mood is Mood.FAILS:
            second.wait_until(lambda: _status_names(second, "avro"), "the feed's name in the status")
            second.wait_until(
                lambda: metric(second, "tidegate_schema_registry_retries_total") > 1, "another try"
            )
            assert "Error in the backend data store" in second.text
        assert second.stop() == 0, second.text
        third = scenario.start_worker()
        third.wait_for("the worker starts")
        third.wait_until(lambda: _waits(third), "the same again")
        values = [row.value for _, row in shop.rows(shop.written(feed))]
        named = {unframe(value)[0] for value in values if value is not None}
        assert named <= _ids(registry), "no record without its schema"
        registry.mood = Mood.WELL
        shop.wait_until_covered(third, feed, beside)
        assert third.stop() == 0, third.text


def test_a_feed_registers_nothing_under_a_subject_of_others(shop: ShopFeeds) -> None:
    scenario = shop.scenario
    with RegistryServer() as registry, closing(SchemaRegistries(DESTINATIONS)) as others:
        taken = SubjectSchema(f"acme{scenario.prefix}first-items-value", '"string"')
        others.of(registry.url).id_of(taken)
        worker = scenario.start_worker()
        scenario.write_head(worker)
        prefixed = f"{avro(registry.url)}, avro_schema_prefix='acme'"
        view = shop.jobs.wait(shop.ask_for("first", prefixed), 60)
        assert (view.status, view.targets) == (FeedState.FAILED, ())
        assert f"has the subject {taken.subject} already" in shop.listed(FeedId("first"))["error"]
        other = shop.created("other", prefixed)
        allowed = shop.created("allowed", f"{prefixed}, existing_topics='use'")
        scenario.append()
        shop.wait_until_covered(worker, other, allowed)
        assert registry.schemas(taken.subject) == [taken.text]
        assert worker.stop() == 0, worker.text


def test_a_refused_schema_fails_its_feed_with_the_registrys_words_and_no_other(shop: ShopFeeds) -> None:
    scenario = shop.scenario
    with RegistryServer() as registry:
        worker = _begun(shop, registry)
        feed, beside = shop.running(FeedId("avro")), shop.running(FeedId("json"))
        registry.mood = Mood.REJECTS
        scenario.append()
        shop.wait_until_covered(worker, beside)
        wait_for(lambda: shop.listed(feed.feed_id)["status"] == "failed", "the failure")
        assert "Schema being registered is incompatible" in shop.listed(feed.feed_id)["error"]
        written = shop.rows(shop.written(feed))
        assert written
        assert written < shop.rows(shop.expected(feed))
        assert worker.stop() == 0, worker.text


class _TakesNoSchemas(RegistryServer):
    """Answers questions as a registry does, and after ``stop`` refuses to store anything."""

    stopped = False

    def answer(self, method: str, path: str, body: Any, authorization: str) -> Reply:
        if self.stopped and method == "POST":
            return Reply(500, {"error_code": 50003, "message": "Error while forwarding to the primary"})
        return super().answer(method, path, body, authorization)


def test_no_new_feed_holds_partitions_while_a_registry_answers_but_takes_no_schemas(shop: ShopFeeds) -> None:
    with _TakesNoSchemas() as registry:
        worker = _begun(shop, registry)
        feed, beside = shop.running(FeedId("avro")), shop.running(FeedId("json"))
        registry.stopped = True
        shop.scenario.append()
        worker.wait_until(lambda: _waits(worker), "a partition that waits")
        shop.ask_for("late", JSON)
        wait_for(lambda: "feed avro" in shop.listed(FeedId("late"))["error"], "the reason of the late feed")
        shown = shop.listed(FeedId("late"))
        assert (shown["status"], "forwarding to the primary" in shown["error"]) == ("pending", True)
        assert "held" not in {partition["state"] for partition in worker.ask("/status")["partitions"]}
        registry.stopped = False
        shop.running(FeedId("late"))
        shop.wait_until_covered(worker, feed, beside)
        assert worker.stop() == 0, worker.text


def test_dropping_a_feed_whose_registry_does_not_come_back_lets_the_others_go_on(shop: ShopFeeds) -> None:
    scenario = shop.scenario
    with RegistryServer() as registry:
        worker = _begun(shop, registry)
        beside = shop.running(FeedId("json"))
        registry.mood = Mood.NOTHING
        scenario.append()
        worker.wait_until(lambda: _waits(worker), "a partition that waits")
        shop.ask_for("late", JSON)
        wait_for(lambda: "feed avro" in shop.listed(FeedId("late"))["error"], "the reason of the late feed")
        shop.jobs.drop(FeedId("avro"))
        shop.wait_until_covered(worker, beside)
        shop.running(FeedId("late"))
        assert worker.stop() == 0, worker.text
