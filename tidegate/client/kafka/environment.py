"""The connection that the environment describes, for programs that have no command line of their own."""

from __future__ import annotations

import os
from typing import Any, Final

from tidegate.access.destinations_file import destinations_of_environment
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.redaction import remember_secret

_SECRETS: Final = ("ssl_key_password", "sasl_password")
_NAMES: Final = (
    "bootstrap_servers",
    "security_protocol",
    "ssl_ca_location",
    "ssl_certificate_location",
    "ssl_key_location",
    "sasl_mechanism",
    "sasl_username",
    *_SECRETS,
)


def connection_of_environment(bootstrap_servers: str = "") -> KafkaConnection:
    """Return the connection of the variables that commands take: TIDEGATE_BOOTSTRAP_SERVERS and so on.

    ``bootstrap_servers`` stands for its variable where it is not empty. Raises ``SettingsError``.
    """
    found: dict[str, Any] = {}
    for name in _NAMES:
        value = os.environ.get(f"TIDEGATE_{name.upper()}")
        if value:
            found[name] = value
            if name in _SECRETS:
                remember_secret(value)
    if bootstrap_servers:
        found["bootstrap_servers"] = bootstrap_servers
    return KafkaConnection(**found, destinations=destinations_of_environment())
