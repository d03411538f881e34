"""The subjects that a query asks its schema registry for before a feed begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.destinations import DESTINATIONS
from tests.feeds import activation
from tests.hand_log import HandTable
from tests.registry_server import RegistryServer
from tests.unit.processor.schemed import schemed_options
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.definition.options import ExistingTopics
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.control import Activate, KnownTable
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.kafka.topics import Topics
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.spark.changefeed.preparation import Preparation

_TABLE: Final = HandTable.of(104, "ers")
_TAKEN: Final = SubjectSchema("orders-value", '"string"')


class _Sinks:
    """Kafka, which is not asked as long as the registry refuses."""

    destinations = DESTINATIONS

    def cluster_of(self, _: object) -> str:
        raise RetryError("Kafka is asked")

    def known_cluster(self, _: object) -> str:
        return ""

    def servers(self, *_: object) -> str:
        return "there:9092"


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as running, closing(_preparation()) as preparation:
        preparation.schema_id(running.url, _TAKEN)
        yield running


def _preparation() -> Preparation:
    sinks: Any = _Sinks()
    jobs: Any = SimpleNamespace(view=JobsView())
    return Preparation(Topics("app", ""), jobs, sinks, 2, lambda _: True)


def _feed(registry: RegistryServer, prefix: str = "", **options: object) -> Activate:
    named = schemed_options(prefix, confluent_schema_registry=registry.url, **options)
    return activation([_TABLE.descriptor], named)


def _error_of(feed: Activate) -> str:
    known = tuple(KnownTable(table, _TABLE.descriptor.id) for table in feed.definition.tables)
    with closing(_preparation()) as preparation:
        state = preparation.announcement(feed.definition, Prepare(Timestamp(5), known, {}))
    assert state is not None
    assert state.state is FeedState.FAILED
    return state.error


def test_a_feed_with_a_subject_of_somebody_else_fails_before_it_registers_anything(
    registry: RegistryServer,
) -> None:
    error = _error_of(_feed(registry, avro_schema_prefix="ord"))
    assert error.startswith(f"the schema registry at {registry.url} has the subject orders-value already")
    assert registry.schemas("orders-value") == [_TAKEN.text]


@pytest.mark.parametrize(
    "options",
    [
        {"avro_schema_prefix": "ord", "existing_topics": ExistingTopics.USE},
        {"avro_schema_prefix": "free_"},
        {"prefix": "ord"},
    ],
)
def test_a_feed_goes_on_that_may_use_it_or_has_other_subjects_or_has_its_topics_name(
    registry: RegistryServer, options: dict[str, Any]
) -> None:
    assert _error_of(_feed(registry, **options)).endswith("Kafka is asked")
