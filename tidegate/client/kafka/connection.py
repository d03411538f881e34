"""Connections to Kafka: brokers, security, and how long to wait for an answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.secret_store import SecretStore
from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.client.kafka.client_room import room_error
from tidegate.errors import BrokerUnavailable, InputError, SettingsError, TidegateError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# librdkafka's own lines come many times a second, and what matters in them also comes as an error.
_LOGGER: Final = logging.getLogger("tidegate.kafka")
_LOGGER.addHandler(logging.NullHandler())
_NOTHING: Final[Mapping[str, Any]] = {}

_Client = TypeVar("_Client")


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """The address of Kafka and the login there. Secrets stay out of ``repr``.

    ``timeout_s`` bounds every wait for an answer. Raises ``SettingsError`` for a login without user name or
    password, and for text that cannot be UTF-8, such as an argument of a command with a byte that is not
    UTF-8.
    """

    bootstrap_servers: str = "127.0.0.1:9092"
    security_protocol: str = "PLAINTEXT"
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    sasl_mechanism: str = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    destinations: Destinations = NOWHERE_ELSE
    """The other clusters that feeds may write to."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), str) and not is_utf8(value):
                raise SettingsError(
                    f"The Kafka setting {each.name} has a byte that is no UTF-8: write it in UTF-8."
                )
        if self.security_protocol not in PROTOCOLS:
            raise SettingsError(
                f"The security protocol {self.security_protocol!r} is not one of {', '.join(PROTOCOLS)}."
            )
        if self._logs_in and (self.sasl_username is None or self.sasl_password is None):
            raise SettingsError(
                f"{self.security_protocol} needs a user name and a password: set TIDEGATE_SASL_USERNAME and"
                " TIDEGATE_SASL_PASSWORD."
            )

    def open(
        self, client: Callable[[dict[str, Any]], _Client], more: Mapping[str, Any] = _NOTHING
    ) -> _Client:
        """Return a librdkafka client with this configuration and ``more``.

        Raises ``SettingsError`` for settings that librdkafka refuses, such as a certificate that it cannot
        read, and ``ClientsExhausted``.
        """
        try:
            return client({**self.config(), **more})
        except (KafkaException, RuntimeError) as error:
            if (full := room_error(error)) is not None:
                raise full from None
            raise SettingsError(f"These Kafka settings cannot be used: {error.args[0].str()}.") from None

    def config(self) -> dict[str, Any]:
        """Return the configuration that every librdkafka client needs."""
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            "logger": _LOGGER,
            # otherwise a producer would create a topic whose name is misspelt
            "allow.auto.create.topics": False,
        }
        if self.security_protocol.endswith("SSL"):
            config |= _set(
                {
                    "ssl.ca.location": self.ssl_ca_location,
                    "ssl.certificate.location": self.ssl_certificate_location,
                    "ssl.key.location": self.ssl_key_location,
                    "ssl.key.password": self.ssl_key_password,
                }
            )
        if self._logs_in:
            config |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.sasl_username,
                "sasl.password": self.sasl_password,
            }
        return config

    def to(self, servers: Sequence[str], feed_id: str) -> KafkaConnection:
        """Return a connection to the other cluster that is a feed's sink: its brokers, with the login of its
        entry.

        Raises ``SinkNotAllowed`` if no entry allows it, and ``SecretMissing``.
        """
        entry = self.destinations.entry(servers, feed_id, self.bootstrap_servers)
        login: Any = entry.login(SecretStore.of_environment())
        return replace(self, bootstrap_servers=",".join(servers), **login)

    def away(self, doing: str, cause: str = "") -> BrokerUnavailable:
        """Return the error for a broker that gave no answer while ``doing`` something; ``cause`` is a detail
        of it."""
        detail = f" ({cause})" if cause else ""
        return BrokerUnavailable(
            f"Kafka at {self.bootstrap_servers} gave no answer within {self.timeout_s:g} s while {doing}"
            f"{detail}. Check that it runs and that --bootstrap-servers is right, then try again."
        )

    @contextmanager
    def asking(self, doing: str) -> Iterator[None]:
        """Turn librdkafka's errors inside the block into tidegate's: no answer, or a refusal."""
        try:
            yield
        except KafkaException as error:
            raise self.failed(doing, error.args[0]) from None

    def failed(self, doing: str, cause: KafkaError) -> TidegateError:
        """Return the error for librdkafka's error ``cause``, which came while ``doing`` something.

        librdkafka's own codes are below zero, and count as no answer of a broker. So does an answer that
        librdkafka calls retriable. All other codes are a refusal by a broker.
        """
        if cause.code() < 0 or cause.retriable():
            return self.away(doing, cause.str())
        return InputError(f"Kafka at {self.bootstrap_servers} refused while {doing}: {cause.str()}.")

    @property
    def _logs_in(self) -> bool:
        return self.security_protocol.startswith("SASL")


def _set(config: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}
