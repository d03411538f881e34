"""Asks a Kafka cluster about its topics: partition counts, and where their records begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.listed_offsets import listed_offsets
from tidegate.errors import InputError
from tidegate.verify import TopicPartition

#: Errors that pass by themselves when offsets are asked for, so the question is repeated.
_PASSING: Final = frozenset(
    {
        # librdkafka's own errors, by their public names: a connection was lost during the question, or before
        # it.
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001
        KafkaError.LEADER_NOT_AVAILABLE,  # another broker leads the partition, or none yet
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # a new topic that this broker does not know yet
        KafkaError.UNKNOWN_LEADER_EPOCH,  # a broker that knows less of the partition than we do
        KafkaError.FENCED_LEADER_EPOCH,  # we know less than the broker
    }
)
#: Those errors of ``_PASSING`` that are no refusal by a broker: the partition has no leader, or another one.
_WITHOUT_LEADER: Final = _PASSING - {KafkaError.UNKNOWN_TOPIC_OR_PART}


class Bounds(NamedTuple):
    """The offsets of a partition: ``low`` is that of its first record, ``end`` is excluded.

    ``end`` is the offset at which a committed reader stops: that of the first open transaction, if there is
    one.
    """

    low: int
    end: int


class GroupMember(NamedTuple):
    """A process in a consumer group: its name, the host it calls from, and the partitions that it has."""

    name: str
    host: str
    partitions: frozenset[TopicPartition]

    def __str__(self) -> str:
        return f"{self.name} at {self.host}"


class Cluster:
    """Asks a cluster about topics. Every method raises ``BrokerUnavailable`` after a bounded wait."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._admin = connection.open(AdminClient)

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the partition count of each topic.

        Raises ``InputError``, which names topics that do not exist.
        """
        known = self._topics()
        wanted = list(dict.fromkeys(topics))
        missing = [topic for topic in wanted if topic not in known]
        if missing:
            raise InputError(
                f"Kafka at {self._connection.bootstrap_servers} has no topic {', '.join(missing)}."
            )
        return {topic: len(known[topic].partitions) for topic in wanted}

    def existing(self, topics: Iterable[str]) -> list[str]:
        """Return those of the topics that the cluster has, each once."""
        known = self._topics()
        return [topic for topic in dict.fromkeys(topics) if topic in known]

    def topic_id(self, topic: str) -> str:
        """Return the topic's id, which it has until it is deleted.

        Raises ``InputError`` for one that does not exist.
        """
        with self._connection.asking(f"asking for the id of {topic}"):
            wanted, timeout_s = TopicCollection([topic]), self._connection.timeout_s
            found = self._admin.describe_topics(wanted, request_timeout=timeout_s)
            return str(found[topic].result().topic_id)

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the offsets at which each partition begins and ends now.

        Each broker tells the bounds of its own partitions. So bounds from several brokers are not of one
        moment.
        """
        wanted = list(places)
        ends = self.ends(wanted)
        lows = self._offsets(wanted, OffsetSpec.earliest())
        return {place: Bounds(lows[place], ends[place]) for place in wanted}

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ``end`` of each partition, as ``bounds`` does."""
        return dict(self._offsets(places, OffsetSpec.latest()))

    def uncommitted_ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset at which each partition ends now for an uncommitted reader.

        These ends include open transactions, and committed ones that committed readers do not see yet.
        """
        latest = OffsetSpec.latest()
        return dict(self._offsets(places, latest, IsolationLevel.READ_UNCOMMITTED))

    def offsets_at(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Return the offset of the first record at or above the time in each partition; its end if there
        is none.
        """
        wanted = list(places)
        ends = self.ends(wanted)
        found = self._offsets(wanted, OffsetSpec.for_timestamp(max(time_ms, 0)))
        return {place: found[place] if found[place] >= 0 else ends[place] for place in wanted}

    def compacted(self, topics: Iterable[str]) -> frozenset[str]:
        """Return those of the topics that are compacted: they lose the older records of a key."""
        return self._set_to(topics, "cleanup.policy", "compact")

    def stamped_by_broker(self, topics: Iterable[str]) -> frozenset[str]:
        """Return those of the topics in which the broker, and not the row, gives a record its time."""
        return self._set_to(topics, "message.timestamp.type", "LogAppendTime")

    def _set_to(self, topics: Iterable[str], name: str, value: str) -> frozenset[str]:
        """Return the topics whose setting ``name`` has ``value`` in it."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        with self._connection.asking(f"asking for the {name} of topics"):
            answers = self._admin.describe_configs(resources, request_timeout=self._connection.timeout_s)
            settings = {resource.name: each.result()[name] for resource, each in answers.items()}
        return frozenset(topic for topic, setting in settings.items() if value in setting.value)

    def members(self, group: str) -> tuple[GroupMember, ...]:
        """Return the members of a consumer group with their partitions; an empty tuple if there is no such
        group.
        """
        with self._connection.asking(f"asking who is in the group {group}"):
            asked = self._admin.describe_consumer_groups([group], request_timeout=self._connection.timeout_s)
            found = asked[group].result()
        return tuple(
            GroupMember(
                member.group_instance_id or member.client_id,
                member.host.lstrip("/"),
                frozenset(TopicPartition(each.topic, each.partition) for each in _assigned(member)),
            )
            for member in found.members
        )

    def _topics(self) -> Mapping[str, Any]:
        """Return the description of each topic of the cluster."""
        with self._connection.asking("listing topics"):
            topics: Mapping[str, Any] = self._admin.list_topics(timeout=self._connection.timeout_s).topics
        return topics

    def _offsets(
        self,
        places: Iterable[TopicPartition],
        spec: Any,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Mapping[TopicPartition, int]:
        asked = {confluent_kafka.TopicPartition(*place): spec for place in places}
        attempts = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_delay(self._connection.timeout_s),
            wait=wait_random_exponential(multiplier=0.05, max=1),
            reraise=True,
        )
        doing, timeout_s = "asking where topics begin and end", self._connection.timeout_s
        with self._connection.asking(doing):
            try:
                return attempts(listed_offsets, self._admin, asked, isolation, timeout_s)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.code() not in _WITHOUT_LEADER:
                    raise
                raise self._connection.away(doing, error.str()) from None


def _assigned(member: Any) -> Iterable[confluent_kafka.TopicPartition]:
    return () if member.assignment is None else member.assignment.topic_partitions


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _PASSING


def partitions_of(counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return every partition of topics with these partition counts."""
    return [TopicPartition(topic, i) for topic, count in counts.items() for i in range(count)]
