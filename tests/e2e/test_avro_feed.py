"""A feed with schemas through the real worker: the reference engine's bytes, and one call a schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.avro_feeds import JSON, ShopFeeds, avro, has_new_column
from tests.e2e.downstream import shop_log
from tests.e2e.scenario import Scenario
from tests.registry_server import RegistryServer

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("others_allowed")]


@pytest.fixture
def shop(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[ShopFeeds]:
    """A shop whose table gets a column on the way, and no worker."""
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, shop_log(seed=11))
    yield ShopFeeds(made)
    made.close()


def test_the_worker_writes_the_reference_engines_bytes_with_one_call_for_each_schema(shop: ShopFeeds) -> None:
    scenario = shop.scenario
    with RegistryServer() as registry:
        worker = scenario.start_worker()
        scenario.write_head(worker)
        feed, beside = shop.created("avro", avro(registry.url)), shop.created("json", JSON)
        scenario.append()
        shop.wait_until_covered(worker, feed, beside)
        assert worker.stop() == 0, worker.text
        subject = f"{scenario.prefix}avro-items"
        # The value's subject has the markers' schema and two versions of the rows'.
        assert Counter(registry.registrations) == {f"{subject}-key": 1, f"{subject}-value": 3}
        assert [has_new_column(text) for text in registry.schemas(f"{subject}-value")] == [False, False, True]


def test_workers_that_follow_each_other_and_share_a_log_write_the_same_bytes(
    shop: ShopFeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_LITERAL_SECRETS", "true")
    scenario = shop.scenario
    with RegistryServer(login=("tidegate", "hush")) as registry:
        url = registry.url.replace("://", "://tidegate:hush@")
        first = scenario.start_worker("w0")
        scenario.write_head(first)
        feed = shop.created("avro", avro(url))
        shop.append_up_to_the_new_column(10)
        second = scenario.start_worker("w1")
        second.wait_for("partition restored")
        first.kill()
        third = scenario.start_worker("w0")
        scenario.append()
        shop.wait_until_covered(third, feed)
        assert {len(set(registry.schemas(subject))) for subject in set(registry.registrations)} == {1, 3}
        assert not any("hush" in worker.text for worker in scenario.workers)
