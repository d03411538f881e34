"""Checks at start: brokers, the log, and the internal topics, created where they are missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from app.clients import librdkafka_config
from app.own_reader import broker_is_away
from app.settings import Settings
from app.topics import Topics, TopicSpec
from tidegate.errors import TopologyError

_REQUEST_S: Final = 10.0
_BACKOFF_FIRST_S: Final = 0.5
_BACKOFF_MAX_S: Final = 10.0

_log = structlog.get_logger("tidegate.topology")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Topology:
    """What was found: the number of log partitions, and the ids of all topics by name."""

    partitions: int
    topic_ids: Mapping[str, str]


class TopicAdmin:
    """Finds, checks and creates topics. Every method blocks, and waits for a broker that is away."""

    def __init__(self, settings: Settings) -> None:
        self._replication = settings.replication_factor
        self._admin = AdminClient(librdkafka_config(settings))

    def discover(self, settings: Settings) -> Topology:
        """Wait for the log, create what is missing beside it, and check what is there.

        Raises ``TopologyError`` for topics that do not fit together.
        """
        topics = Topics.of(settings)
        partitions = self._wait_for_log(topics.log)
        specs = topics.specs(partitions, settings.checkpoint_partitions)
        self.ensure(specs)
        return Topology(partitions, self._ids([topics.log, *(spec.name for spec in specs)]))

    def partitions(self, topic: str) -> int | None:
        """How many partitions the topic has; ``None`` when it does not exist."""
        found = insist("metadata", lambda: self._admin.list_topics(topic, timeout=_REQUEST_S)).topics.get(
            topic
        )
        return None if found is None or found.error is not None else len(found.partitions)

    def config(self, topic: str) -> dict[str, str]:
        """The topic's configuration, defaults included."""

        def ask() -> Any:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            return self._admin.describe_configs([resource], request_timeout=_REQUEST_S)[resource].result()

        return {name: entry.value for name, entry in insist("topic configuration", ask).items()}

    def ensure(self, specs: Iterable[TopicSpec]) -> None:
        """Create the topics that are missing, and compare the others with their specification.

        Raises ``TopologyError`` that names the topic and what to do.
        """
        for spec in specs:
            found = self.partitions(spec.name)
            if found is None:
                self._create(spec)
            else:
                self._check(spec, found)

    def _wait_for_log(self, log: str) -> int:
        pause_s = _BACKOFF_FIRST_S
        while not (partitions := self.partitions(log)):
            _log.warning("waiting for the log topic, which the range store creates", topic=log)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _BACKOFF_MAX_S)
        return partitions

    def _create(self, spec: TopicSpec) -> None:
        topic = NewTopic(spec.name, spec.partitions, self._replication, config=dict(spec.config))

        def ask() -> None:
            self._admin.create_topics([topic], request_timeout=_REQUEST_S)[spec.name].result()

        try:
            insist("topic creation", ask)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # else another worker was faster
                raise TopologyError(
                    f"The topic {spec.name} cannot be created: {failure.args[0].str()}. Create it with "
                    f"{spec.partitions} partitions and {dict(spec.config)}, or let this user do so"
                ) from None
        while self.partitions(spec.name) != spec.partitions:  # until every broker has heard of it
            time.sleep(_BACKOFF_FIRST_S / 5)
        _log.info("topic created", topic=spec.name, partitions=spec.partitions)

    def _check(self, spec: TopicSpec, partitions: int) -> None:
        if partitions != spec.partitions:
            raise TopologyError(
                f"The topic {spec.name} has {partitions} partitions where {spec.partitions} are needed "
                "(as many as the log for state and control). The log cannot grow under an application: start "
                "a new app_id, or restore the former count"
            )
        policy = self.config(spec.name).get("cleanup.policy", "")
        if policy != spec.config["cleanup.policy"]:
            raise TopologyError(
                f"The topic {spec.name} has cleanup.policy={policy}, which loses what tidegate keeps there; "
                f"set it to {spec.config['cleanup.policy']}"
            )

    def _ids(self, names: list[str]) -> dict[str, str]:
        def ask() -> dict[str, str]:
            found = self._admin.describe_topics(TopicCollection(names), request_timeout=_REQUEST_S)
            return {name: str(future.result().topic_id) for name, future in found.items()}

        return insist("topic ids", ask)


def insist(what: str, ask: Callable[[], ResultT]) -> ResultT:
    """The answer of ``ask``, repeated with back-off while no broker answers it."""
    pause_s = _BACKOFF_FIRST_S
    while True:
        try:
            return ask()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not broker_is_away(error):
                raise
            _log.warning("waiting for Kafka", asked=what, cause=error.str(), again_in_s=pause_s)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _BACKOFF_MAX_S)
