"""A secret that a feed names reaches its topic, and nothing else that a worker writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from stack.kafka import KafkaBroker
from tests.e2e.avro_feeds import JSON, ShopFeeds
from tests.e2e.downstream import shop_log
from tests.e2e.scenario import Scenario
from tidegate.client.kafka.prompt_consumer import PromptConsumer

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SECRET: Final = b"hunter2-for-one-topic"
_HEADER: Final = "x-api-key"


@pytest.fixture
def shop(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[ShopFeeds]:
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, shop_log(seed=12))
    yield ShopFeeds(made)
    made.close()


def records(bootstrap: str, prefix: str) -> Iterator[tuple[str, bytes, list[tuple[str, bytes]]]]:
    """Topic, key with value, and headers of every record of the topics that begin so."""
    config = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = PromptConsumer({**config, "enable.partition.eof": True})
    with closing(consumer):
        unread = [
            TopicPartition(name, partition, OFFSET_BEGINNING)
            for name, topic in consumer.list_topics(timeout=30).topics.items()
            if name.startswith(prefix)
            for partition in topic.partitions
        ]
        consumer.assign(unread)
        ends = 0
        while ends < len(unread):
            record = consumer.poll(30.0)
            assert record is not None, "neither a record nor the end"
            if record.error() is None:
                yield record.topic(), (record.key() or b"") + (record.value() or b""), record.headers() or []
            else:
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                ends += 1


def test_a_named_secret_stands_on_the_feeds_topic_and_nowhere_else(shop: ShopFeeds, tmp_path: Path) -> None:
    scenario, store = shop.scenario, tmp_path / "store"
    store.mkdir()
    # A feed that waits for long is given its rows again by a scan, without the header of their source.
    worker = scenario.start_worker(secrets_dir=store, sink_stall_ms=110_000, drain_timeout_ms=240_000)
    scenario.write_head(worker)
    feed = shop.created("named", JSON + f""", extra_headers='{{"{_HEADER}": "secret://shop"}}'""")
    scenario.append()
    worker.wait_until(
        lambda: "rows cannot be given to their sink" in worker.text, "the line about the secret"
    )
    (store / "shop.for").write_text("127.0.0.1\nlocalhost\n")
    (store / "shop").write_bytes(SECRET)
    options = replace(feed.definition.options, extra_headers=f'{{"{_HEADER}": "{SECRET.decode()}"}}')
    literal = replace(feed, definition=replace(feed.definition, options=options))
    shop.wait_until_covered(worker, literal)
    assert worker.stop() == 0, worker.text
    rows = 0
    for topic, body, headers in records(scenario.bootstrap, scenario.prefix):
        assert SECRET not in body, topic
        shown = [name for name, value in headers if SECRET in value]
        assert shown == ([_HEADER] if (_HEADER, SECRET) in headers else []), topic
        assert not shown or topic == f"{scenario.prefix}named-items"
        rows += len(shown)
    assert rows > 0
    for file in (scenario.directory / "w0").rglob("*"):
        assert file.is_dir() or SECRET not in file.read_bytes(), file
