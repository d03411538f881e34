"""Configuration of the two Kafka clients: librdkafka (producers, state) and aiokafka (through Faust).

Neither client may make a broker create a topic by asking for it (``auto.create.topics.enable``, which is on
by default in Kafka): such a topic has the broker's number of partitions, and a retention that loses state.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import aiokafka.client
from aiokafka.protocol.metadata import MetadataRequest
from confluent_kafka import KafkaException
from faust import SASLCredentials, SSLCredentials
from pydantic import SecretStr
from yarl import URL

from tidegate.client.kafka.client_room import room_error
from tidegate.errors import SettingsError
from tidegate.worker.process.settings import SecurityProtocol, Settings

#: The logger of both clients; librdkafka's own lines go there too.
KAFKA_LOGGER: Final = logging.getLogger("tidegate.kafka")
ClientT = TypeVar("ClientT")
_RECONNECT_MAX_MS: Final = 5_000  # a broker that is back is used again after this time at most


class AskingOnly(MetadataRequest):
    """A request for metadata that does not make the broker create missing topics.

    aiokafka's own request does, and no setting changes that. A log that is deleted under a worker would come
    back at once, with the broker's default number of partitions.
    """

    def __init__(self, topics: list[str] | None = None) -> None:
        super().__init__(topics, allow_auto_topic_creation=False)


aiokafka.client.MetadataRequest = AskingOnly


def librdkafka_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of every librdkafka client of the worker: brokers, identity, security."""
    config: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": settings.app_id,
        "security.protocol": settings.security_protocol.value,
        "reconnect.backoff.max.ms": _RECONNECT_MAX_MS,
        "allow.auto.create.topics": False,  # true by default for producers and admin clients
        "log.connection.close": False,  # idle connections close all the time
        "logger": KAFKA_LOGGER,
    }
    if settings.security_protocol.encrypted:
        config |= _tls(settings)
    if settings.security_protocol.authenticated and settings.sasl_password is not None:
        config |= {
            "sasl.mechanism": settings.sasl_mechanism,
            "sasl.username": settings.sasl_username,
            "sasl.password": settings.sasl_password.get_secret_value(),
        }
    return config


def with_login(settings: Settings, servers: str, login: Mapping[str, str | None]) -> Settings:
    """Return the worker's settings for another cluster: with the cluster's ``servers``, and with the
    ``login`` of the operator's entry for it.
    """
    values: dict[str, Any] = {**login, "bootstrap_servers": servers}
    if "security_protocol" in values:
        values["security_protocol"] = SecurityProtocol(values["security_protocol"])
    for name in ("sasl_password", "ssl_key_password"):
        if values.get(name) is not None:
            values[name] = SecretStr(values[name])
    return settings.model_copy(update=values)


def opened(client: Callable[[], ClientT], servers: str) -> ClientT:
    """Open a client of the Kafka cluster at ``servers`` by calling ``client``, and return it.

    Raises ``SettingsError`` for settings that librdkafka refuses, such as a certificate that it cannot read,
    and ``ClientsExhausted``.
    """
    try:
        return client()
    except (KafkaException, RuntimeError) as failure:
        if (full := room_error(failure)) is not None:
            raise full from None
        raise SettingsError(
            f"A Kafka client for {servers} cannot be opened with the operator's settings or entry for it: "
            f"{failure.args[0].str()}. Mend these, and start the worker again"
        ) from None


def _tls(settings: Settings) -> dict[str, Any]:
    locations = {
        "ssl.ca.location": settings.ssl_ca_location,
        "ssl.certificate.location": settings.ssl_certificate_location,
        "ssl.key.location": settings.ssl_key_location,
    }
    config: dict[str, Any] = {name: str(path) for name, path in locations.items() if path is not None}
    if settings.ssl_key_password is not None:
        config["ssl.key.password"] = settings.ssl_key_password.get_secret_value()
    return config


def broker_urls(settings: Settings) -> list[URL]:
    """Return the bootstrap servers as Faust takes them."""
    servers = (server.strip() for server in settings.bootstrap_servers.split(","))
    return [URL(f"kafka://{server}") for server in servers if server]


def faust_credentials(settings: Settings) -> SASLCredentials | SSLCredentials | None:
    """Return the security settings as aiokafka takes them; ``None`` for a connection without TLS
    and login.
    """
    protocol = settings.security_protocol
    context = _ssl_context(settings) if protocol.encrypted else None
    if protocol.authenticated and settings.sasl_password is not None:
        return SASLCredentials(
            username=settings.sasl_username,
            password=settings.sasl_password.get_secret_value(),
            mechanism=settings.sasl_mechanism,
            ssl_context=context,
        )
    return None if context is None else SSLCredentials(context)


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    """Load the TLS files. Raises ``SettingsError`` if one is missing, or is not a certificate or key."""
    try:
        return _loaded_ssl_context(settings)
    except OSError as error:
        raise SettingsError(
            "The files of ssl_ca_location, ssl_certificate_location and ssl_key_location cannot be used "
            f"({error}); look at their paths, their PEM text, and the key's password"
        ) from None


def _loaded_ssl_context(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=_text(settings.ssl_ca_location))
    if settings.ssl_certificate_location is not None:
        password = settings.ssl_key_password
        context.load_cert_chain(
            str(settings.ssl_certificate_location),
            _text(settings.ssl_key_location),
            None if password is None else password.get_secret_value(),
        )
    return context


def _text(path: object) -> str | None:
    return None if path is None else str(path)
