"""The sink URI: ``kafka://host:port,...?parameter=value&...``.

Parameter names, rules and the beginnings of error texts are CockroachDB's
(``pkg/ccl/changefeedccl/sink_kafka_v2.go``, ``kafkaauth``). Certificates and keys are PEM in base 64.
Secrets are kept out of ``repr``, of error texts and of ``redacted()``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from tidegate.changefeed.definition.read_uris import remembered
from tidegate.changefeed.definition.uri_parameters import (
    REDACTED,
    SECRET_PARAMETERS,
    bool_parameter,
    pem_parameter,
    unknown_parameters,
)
from tidegate.errors import StatementError

_DEFAULT_PORT: Final = "9092"
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_HOST_WITH_PORT: Final = re.compile(r":[0-9]+$")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KNOWN_MECHANISMS: Final = (*_MECHANISMS, "OAUTHBEARER", "AWS_MSK_IAM")
_KNOWN_SCHEMES: Final = frozenset(
    (
        *("azure", "azure-event-hub", "confluent-cloud", "experimental-sql", "external", "file-http"),
        *("file-https", "gcpubsub", "gs", "http", "https", "nodelocal", "null", "pulsar", "s3"),
        *("webhook-http", "webhook-https"),
    )
)
_KNOWN_BUT_UNSUPPORTED: Final = frozenset(
    (
        *("schema_topic", "topic_name", "sasl_handshake", "sasl_client_id", "sasl_client_secret"),
        *("sasl_token_url", "sasl_scopes", "sasl_grant_type", "sasl_aws_iam_role_arn"),
        *("sasl_aws_region", "sasl_aws_iam_session_name"),
    )
)
_SUPPORTED: Final = (
    "topic_prefix",
    "tls_enabled",
    "ca_cert",
    "client_cert",
    "client_key",
    "insecure_tls_skip_verify",
    "sasl_enabled",
    "sasl_mechanism",
    "sasl_user",
    "sasl_password",
)


@dataclass(frozen=True, slots=True)
class SinkUri:
    """The parsed URI of a Kafka sink.

    ``hosts`` are ``host:port``. Certificates and the key are PEM, empty when absent.
    """

    hosts: tuple[str, ...]
    topic_prefix: str = ""
    tls_enabled: bool = False
    insecure_tls_skip_verify: bool = False
    ca_cert: bytes = b""
    client_cert: bytes = b""
    client_key: bytes = field(default=b"", repr=False)
    sasl_enabled: bool = False
    sasl_mechanism: str = "PLAIN"
    sasl_user: str = ""
    sasl_password: str = field(default="", repr=False)
    parameters: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The parameters as they were given, for ``redacted``."""

    def redacted(self) -> str:
        """Return the URI as given, with ``redacted`` in place of every secret."""
        shown = [
            f"{name}={REDACTED if name in SECRET_PARAMETERS else quote(value, safe='/:,')}"
            for name, value in self.parameters
        ]
        return f"kafka://{','.join(self.hosts)}{'?' if shown else ''}{'&'.join(shown)}"

    def kafka_config(self) -> dict[str, str]:
        """Return the librdkafka settings that reach this cluster; they hold the secrets."""
        config = {"bootstrap.servers": ",".join(self.hosts), "security.protocol": self._protocol()}
        if self.tls_enabled:
            config |= self._tls_config()
        if self.sasl_enabled:
            config |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.sasl_user,
                "sasl.password": self.sasl_password,
            }
        return config

    def _protocol(self) -> str:
        if self.sasl_enabled:
            return "sasl_ssl" if self.tls_enabled else "sasl_plaintext"
        return "ssl" if self.tls_enabled else "plaintext"

    def _tls_config(self) -> dict[str, str]:
        pems = {
            "ssl.ca.pem": self.ca_cert,
            "ssl.certificate.pem": self.client_cert,
            "ssl.key.pem": self.client_key,
        }
        config = {name: pem.decode("ascii") for name, pem in pems.items() if pem}
        if self.insecure_tls_skip_verify:
            config["enable.ssl.certificate.verification"] = "false"
        return config


def require_shared_connection(sink: SinkUri) -> None:
    """Raise ``StatementError`` for a sink URI with TLS or login parameters of its own.

    The operator's entry for a cluster has its login. If such a parameter were accepted, it would be ignored,
    and a secret would be stored without need.
    """
    own = [name for name, _ in sink.parameters if name != "topic_prefix"]
    if own:
        raise StatementError(
            f"sink parameters not supported yet: {', '.join(own)}. The TLS and login for another cluster "
            "stand in its entry of TIDEGATE_DESTINATIONS_FILE, those for the own cluster in "
            "TIDEGATE_SECURITY_PROTOCOL and the settings beside it; leave the parameters out"
        )


@remembered
def parse_sink_uri(text: str) -> SinkUri:
    """Read a sink URI.

    Raises ``StatementError`` for a URI that this version does not take. The error has no position and no
    secrets.
    """
    try:
        parts = urlsplit(text)
    except ValueError:
        raise StatementError("the sink is not a URI: its hosts cannot be read") from None
    _check_scheme(parts.scheme)
    if "@" in parts.netloc:
        raise StatementError(
            "the sink URI must not name a user before its host: use sasl_user and sasl_password"
        )
    if parts.path not in ("", "/"):
        raise StatementError("the sink URI must not have a path; topics are named after tables")
    if parts.fragment:
        raise StatementError("the sink URI has a #: write %23 where a value needs one")
    pairs = tuple(parse_qsl(parts.query, keep_blank_values=True))
    sink = _sink(_hosts(parts.netloc), pairs)
    _check_tls(sink)
    _check_sasl(sink)
    return sink


def _check_scheme(scheme: str) -> None:
    if scheme == "kafka":
        return
    if scheme in _KNOWN_SCHEMES:
        raise StatementError(f"sink {scheme} is not supported yet; supported: kafka://host:port")
    what = "its scheme is unknown" if scheme else "no scheme"
    raise StatementError(f"unsupported sink: {what}; supported: kafka://host:port")


def _hosts(netloc: str) -> tuple[str, ...]:
    hosts = netloc.split(",")
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise StatementError("the sink URI needs its brokers as host:port,host:port")
    return tuple(host if _HOST_WITH_PORT.search(host) else f"{host}:{_DEFAULT_PORT}" for host in hosts)


def _sink(hosts: tuple[str, ...], pairs: tuple[tuple[str, str], ...]) -> SinkUri:
    given = dict(pairs)
    _check_names(given, len(pairs))
    return SinkUri(
        hosts=hosts,
        topic_prefix=given.get("topic_prefix", ""),
        tls_enabled=bool_parameter(given, "tls_enabled"),
        insecure_tls_skip_verify=bool_parameter(given, "insecure_tls_skip_verify"),
        ca_cert=pem_parameter(given, "ca_cert"),
        client_cert=pem_parameter(given, "client_cert"),
        client_key=pem_parameter(given, "client_key"),
        sasl_enabled=bool_parameter(given, "sasl_enabled"),
        sasl_mechanism=given.get("sasl_mechanism") or "PLAIN",
        sasl_user=given.get("sasl_user", ""),
        sasl_password=given.get("sasl_password", ""),
        parameters=pairs,
    )


def _check_names(given: Mapping[str, str], count: int) -> None:
    unknown = sorted(given.keys() - set(_SUPPORTED) - _KNOWN_BUT_UNSUPPORTED)
    if unknown:
        raise StatementError(unknown_parameters("unknown kafka sink query parameters", unknown, _SUPPORTED))
    refused = sorted(given.keys() & _KNOWN_BUT_UNSUPPORTED)
    if refused:
        raise StatementError(
            f"{refused[0]} is not yet supported; supported parameters: {', '.join(_SUPPORTED)}"
        )
    if len(given) < count:
        raise StatementError("a parameter of the sink URI is given twice")


def _check_tls(sink: SinkUri) -> None:
    if not sink.tls_enabled:
        for name in ("ca_cert", "client_cert", "client_key", "insecure_tls_skip_verify"):
            if getattr(sink, name):
                raise StatementError(f"{name} requires tls_enabled=true")
    if bool(sink.client_cert) != bool(sink.client_key):
        raise StatementError("client_cert and client_key belong together: give both or none")


def _check_sasl(sink: SinkUri) -> None:
    if not sink.sasl_enabled:
        named = [name for name, value in sink.parameters if name.startswith("sasl_") and value]
        named = [name for name in named if name != "sasl_enabled"]
        if named:
            raise StatementError(f"sasl_enabled must be enabled if {named[0]} is provided")
        return
    if sink.sasl_mechanism not in _KNOWN_MECHANISMS:
        raise StatementError(f"param sasl_mechanism must be one of {', '.join(_MECHANISMS)}")
    if sink.sasl_mechanism not in _MECHANISMS:
        raise StatementError(
            f"sasl_mechanism {sink.sasl_mechanism} is not supported yet; supported: {', '.join(_MECHANISMS)}"
        )
    for name, value in (("sasl_user", sink.sasl_user), ("sasl_password", sink.sasl_password)):
        if not value:
            raise StatementError(
                f"{name} must be provided when SASL is enabled using mechanism {sink.sasl_mechanism}"
            )
