"""Finds, checks and creates topics; repeats its questions while no broker answers."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from tidegate.client.kafka.cluster_watch import ClusterWatch
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.listed_offsets import listed_offsets
from tidegate.client.kafka.row_refusal import is_gone, marker_refused
from tidegate.delivery.refused_rows import UNKNOWN_FOR_S
from tidegate.errors import BrokerUnavailable, RetryError, TopicGone, TopologyError

_REQUEST_S: Final = 10.0
_ENDS_S: Final = 5.0  # the question is repeated soon, and a feed that closes waits for the answer
_BACKOFF_FIRST_S: Final = 0.5
_BACKOFF_MAX_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.1
_BROKERS_DEFAULT: Final = -1

#: Answers that may pass by themselves: a broker that does not know a new topic or its new leader yet, a
#: controller that moves. After ``_PASSING_S`` seconds such an answer counts as a refusal.
_PASSING: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_PASSING_S: Final = 30.0
#: What the controller answers to the creation of a topic while it believes that every broker is dead, for
#: example since none has sent a heartbeat for a moment. A replication factor that is too high for the cluster
#: has the same error code, with other words.
_ALL_FENCED: Final = "brokers are currently fenced"
#: librdkafka's errors for a topic that no broker has named: either none has answered, or the topic is gone.
_UNHEARD_OF: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - these are their public names
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)
#: librdkafka's errors for a login or a certificate that is refused, by either side. To librdkafka a
#: connection that is lost during the handshake is only a lost connection.
_NOT_LET_IN: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
    }
)
#: The error for partitions none of which has a leader. The cause may be a topic that no broker knows any
#: more.
_UNLED: Final = (KafkaError._NOENT,)  # noqa: SLF001
_MAY_DESCRIBE: Final = (
    "Let the worker's user describe topics and their configuration, where that is forbidden"
)

_AWAY: Final = (
    KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's own codes carry an underscore
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
)

_log = logging.getLogger("tidegate.topology")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic that the worker needs. It is created with ``config`` when missing, else compared with it.

    Only ``cleanup.policy`` is compared, since another one loses data. The topic's owner may tune the rest.
    """

    name: str
    partitions: int
    config: Mapping[str, str]


class TopicAdmin:
    """Finds, checks and creates topics of the cluster at ``servers``, by ``client``.

    ``replication`` is how many copies a created topic has. ``watch`` is the logger of a ``client`` whose
    address may come to mean another cluster. Every method blocks. All but ``ends``, ``cluster_id`` and
    ``only_cluster`` wait for a broker that does not answer. They wait for ``patience_s`` if that is given,
    and then raise ``RetryError``.
    """

    def __init__(
        self,
        client: AdminClient,
        servers: str,
        replication: int,
        *,
        patience_s: float | None = None,
        watch: ClusterWatch | None = None,
    ) -> None:
        self._admin = client
        self._servers = servers
        self._replication = replication
        self._patience_s = patience_s
        self._watch = watch or ClusterWatch(_log)

    @property
    def is_over(self) -> bool:
        """Whether another cluster was seen. The client's answers may be from either cluster, so another
        client is needed.
        """
        return self._watch.has_changed

    @property
    def servers(self) -> str:
        """The addresses of the brokers that it was given: ``host:port``, comma-separated."""
        return self._servers

    def partitions(self, topic: str) -> int | None:
        """Return how many partitions the topic has; ``None`` when it does not exist.

        The question creates no topic if the client's configuration forbids that. Raises ``TopologyError``
        when the broker refuses to answer.
        """

        def ask() -> int | None:
            found = self._admin.list_topics(topic, timeout=_REQUEST_S).topics[topic]
            if found.error is None:
                return len(found.partitions)
            if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise KafkaException(found.error)

        return self._insist(f"partitions of the topic {topic}", ask)

    def config(self, topic: str) -> dict[str, str]:
        """Return the topic's configuration, defaults included. Raises ``TopologyError``."""

        def ask() -> Any:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            return self._admin.describe_configs([resource], request_timeout=_REQUEST_S)[resource].result()

        entries = self._insist(f"configuration of the topic {topic}", ask)
        return {name: entry.value for name, entry in entries.items()}

    def ensure(self, specs: Iterable[TopicSpec]) -> None:
        """Create the topics that are missing, and compare the others with their specification.

        Raises ``TopologyError`` that names the topic and what to do.
        """
        for spec in specs:
            found = self.create_unless_there(spec)
            if found is not None:
                self._check(spec, found)

    def create_unless_there(self, spec: TopicSpec) -> int | None:
        """Return how many partitions the topic had already; ``None`` when it was missing and is created now.

        Raises ``TopologyError`` when it cannot be created.
        """
        found = self.partitions(spec.name)
        if found is None and not self._create(spec):  # somebody else was faster, maybe with other settings
            found = self._wait_until_known(spec.name)
        return found

    def create_early(self, specs: Sequence[TopicSpec]) -> None:
        """Ask once, in one request, for the creation of all these topics.

        It does not repeat the request, and does not wait until the topics are known.

        What fails is left to ``create_unless_there``, which says why.
        """
        topics = [
            NewTopic(spec.name, spec.partitions, self._replication, config=dict(spec.config))
            for spec in specs
        ]
        try:
            for created in self._admin.create_topics(topics, request_timeout=_REQUEST_S).values():
                created.exception()  # waits
        except KafkaException as failure:
            _log.debug("topics are created one after the other: %s", failure.args[0].str())

    def cluster_id(self) -> str:
        """Return the cluster's id, which is the same for all its addresses.

        Asks once. Raises ``BrokerUnavailable``.
        """
        try:
            answer = self._admin.describe_cluster(request_timeout=_ENDS_S).result()
        except KafkaException as failure:
            cause = failure.args[0].str()
            raise BrokerUnavailable(f"Kafka at {self._servers} gives no answer: {cause}") from None
        return str(answer.cluster_id)

    def only_cluster(self, topic: str) -> str:
        """Return the id of the cluster that has given all answers so far.

        The question names ``topic``. Asks once. Raises ``RetryError`` without an answer, and ``SinkHeld``
        when it ``is_over``.
        """
        name = f"a client of the cluster at {self._servers}"
        return self._watch.only_cluster(self._admin, topic, _ENDS_S, name)

    def ends(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the offsets at which these partitions, (topic, number), end now for an uncommitted reader.

        Asks once, in one request to each broker. Raises ``RetryError`` when any of the ends is not known, and
        ``TopicGone`` when that is because no broker knows the partition.
        """
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
        try:
            found = listed_offsets(self._admin, asked, IsolationLevel.READ_UNCOMMITTED, _ENDS_S)
            return dict(found.items())
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
        topics = ", ".join(sorted({topic for topic, _ in places}))
        sentence = f"Kafka does not tell where the topics {topics} end"
        if (is_gone(error) or error.code() in _UNLED) and (unknown := self._unknown(places)) is not None:
            topic, partition = unknown
            raise TopicGone(
                f"{sentence}: it knows no partition {partition} of {topic}. That was deleted, unless it is "
                f"new; the feed fails if it stays unknown for {UNKNOWN_FOR_S:.0f} s",
                str(marker_refused(topic, partition, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))),
            )
        raise RetryError(f"{sentence}: {error.str()}. {_MAY_DESCRIBE}")

    def _unknown(self, places: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
        """Return one of the partitions that no broker knows, by what a broker says of its topic.

        Asks once for each topic, up to the one that is unknown. Returns ``None`` if there is none, or if no
        broker answers.
        """
        known: dict[str, Any] = {}
        try:
            for topic, partition in places:
                if topic not in known:
                    known[topic] = self._admin.list_topics(topic, timeout=_ENDS_S).topics[topic]
                found = known[topic]
                if is_gone(found.error) if found.error is not None else partition not in found.partitions:
                    return topic, partition
        except KafkaException as failure:
            _log.debug("no broker tells of the topics whose ends are unknown: %s", failure.args[0].str())
        return None

    def is_empty(self, topic: str, partitions: int) -> bool:
        """Return whether nothing was ever written to the topic.

        Waits for its leaders, which a new topic may not have yet. Raises ``TopologyError``.
        """
        latest = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}

        def ask() -> bool:
            found = listed_offsets(self._admin, latest, IsolationLevel.READ_UNCOMMITTED, _ENDS_S)
            return not any(end for _, end in found.items())

        return self._insist(f"ends of the topic {topic}", ask)

    def _create(self, spec: TopicSpec) -> bool:
        """Create the topic, and return once the brokers know it; return whether this call created it."""
        topic = NewTopic(spec.name, spec.partitions, self._replication, config=dict(spec.config))

        def ask() -> bool:
            try:
                self._admin.create_topics([topic], request_timeout=_REQUEST_S)[spec.name].result()
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        mend = f"Create it with {spec.partitions} partitions and {dict(spec.config)}, or let this user do so"
        created = self._insist(f"creation of the topic {spec.name}", ask, mend)
        if created:
            self._wait_until_known(spec.name)
            _log.info("topic %s created with %d partitions", spec.name, spec.partitions)
        return created

    def _wait_until_known(self, topic: str) -> int:
        deadline = time.monotonic() + _PASSING_S
        while not (partitions := self.partitions(topic)):
            if time.monotonic() > deadline:
                raise TopologyError(
                    f"Kafka says that the topic {topic} exists, but no broker told of its partitions for "
                    f"{_PASSING_S:.0f} s; look whether it is being deleted, then try again"
                )
            time.sleep(_LOOK_AGAIN_S)
        return partitions

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

    def ids(self, names: list[str]) -> dict[str, str]:
        """Return the id of each topic, by name.

        Raises ``TopologyError``, also for a topic that does not exist.
        """

        def ask() -> dict[str, str]:
            found = self._admin.describe_topics(TopicCollection(names), request_timeout=_REQUEST_S)
            return {name: str(future.result().topic_id) for name, future in found.items()}

        return self._insist(f"ids of the topics {', '.join(names)}", ask)

    def _insist(self, what: str, ask: Callable[[], ResultT], mend: str = _MAY_DESCRIBE) -> ResultT:
        return insist(what, ask, self._metadata, mend, self._patience_s)

    def _metadata(self) -> object:
        return self._admin.list_topics(timeout=_REQUEST_S)


def open_admin(connection: KafkaConnection, patience_s: float) -> TopicAdmin:
    """Return a client for the topics of the connection's cluster, which waits ``patience_s`` for an answer.

    Topics that it creates have the brokers' default replication. Raises ``SettingsError`` as
    ``KafkaConnection.open`` does.
    """
    watch, servers = ClusterWatch(logging.getLogger("tidegate.kafka")), connection.bootstrap_servers
    client = connection.open(AdminClient, {"logger": watch})
    return TopicAdmin(client, servers, _BROKERS_DEFAULT, patience_s=patience_s, watch=watch)


def insist(
    what: str,
    ask: Callable[[], ResultT],
    metadata: Callable[[], object],
    mend: str = _MAY_DESCRIBE,
    patience_s: float | None = None,
) -> ResultT:
    """Return the answer of ``ask``, which is repeated with back-off while no broker answers.

    ``metadata`` is any request for metadata by the same client. It distinguishes a topic that no broker knows
    from a topic about which nothing is known because no broker answers. Raises ``TopologyError`` when the
    broker refuses; the error says ``what`` was asked, the broker's words, and how to ``mend`` it. Raises
    ``RetryError`` when no broker has answered for ``patience_s`` seconds, if that is given.
    """
    pause_s = _BACKOFF_FIRST_S
    given_up_at = math.inf if patience_s is None else time.monotonic() + patience_s
    passing_until: float | None = None
    while True:
        try:
            return ask()
        except KafkaException as failure:
            error = _cause(failure, metadata)
        if time.monotonic() > given_up_at:
            raise RetryError(f"Kafka gave no answer for {patience_s:.0f} s ({what}): {error.str()}")
        if broker_is_away(error):
            passing_until = None
        elif not _may_pass(error):
            raise refused(what, error, mend)
        elif passing_until is None:
            passing_until = time.monotonic() + _PASSING_S
        elif time.monotonic() > passing_until:
            raise refused(what, error, mend)
        _log.warning("waiting for Kafka (%s), asked again in %g s: %s", what, pause_s, error.str())
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _BACKOFF_MAX_S)


def _cause(failure: KafkaException, metadata: Callable[[], object]) -> KafkaError:
    """Return what went wrong. For a topic that no broker has named, return why no broker answers."""
    error: KafkaError = failure.args[0]
    if error.code() in _UNHEARD_OF:
        try:
            metadata()
        except KafkaException as unanswered:
            cause: KafkaError = unanswered.args[0]
            return cause
    return error


def _may_pass(error: KafkaError) -> bool:
    """Return whether to repeat the question for a while.

    Most of librdkafka's own errors, whose codes are below zero, are no refusal. For example, at the moment
    when a broker dies its connections are closed during the question.
    """
    code = error.code()
    if code == KafkaError.INVALID_REPLICATION_FACTOR:
        return _ALL_FENCED in error.str()
    return code in _PASSING or (code < 0 and code not in _NOT_LET_IN)


def refused(what: str, error: KafkaError, mend: str) -> TopologyError:
    """Return the broker's refusal as a sentence."""
    return TopologyError(f"Kafka refused what the worker asked for ({what}): {error.str()}. {mend}")


def broker_is_away(error: KafkaError) -> bool:
    """Return whether the broker may answer when it is asked again."""
    return error.retriable() or error.code() in _AWAY
