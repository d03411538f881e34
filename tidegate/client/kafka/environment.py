"""The connection that the environment describes, for programs that have no command line of their own."""

from __future__ import annotations

import os
from typing import Any, Final

from tidegate.access.destinations_file import destinations_of_environment
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import SettingsError, brief
from tidegate.redaction import remember_secret

#: The fields that are no secrets, so that arguments of a command may show them too.
SHOWN_FIELDS: Final = (
    "bootstrap_servers",
    "security_protocol",
    "ssl_ca_location",
    "ssl_certificate_location",
    "ssl_key_location",
    "sasl_mechanism",
    "sasl_username",
)
_SECRET_FIELDS: Final = ("ssl_key_password", "sasl_password")


def connection_of_environment(bootstrap_servers: str = "") -> KafkaConnection:
    """Return the connection of the variables that commands take: TIDEGATE_BOOTSTRAP_SERVERS and so on.

    ``bootstrap_servers`` takes the place of its variable unless it is empty. Raises ``SettingsError``, also
    if the environment has a login and ``bootstrap_servers`` names other brokers than the variable: the login
    is for the brokers of the variable.
    """
    shown = _set_variables(SHOWN_FIELDS)
    if bootstrap_servers:
        if shown.get("security_protocol", "").startswith("SASL"):
            _require_own(bootstrap_servers, shown.get("bootstrap_servers", ""))
        shown["bootstrap_servers"] = bootstrap_servers
    return connection_with_secrets(**shown)


def _require_own(asked: str, own: str) -> None:
    """Raise ``SettingsError`` for brokers that are not among ``own``. Both are lists with commas."""
    foreign = sorted(_brokers(asked) - _brokers(own))
    if foreign:
        raise SettingsError(
            "The login of the environment (TIDEGATE_SASL_USERNAME) is not sent to "
            f"{brief(', '.join(foreign))}: TIDEGATE_BOOTSTRAP_SERVERS does not name it. Set that variable to "
            "the brokers that the login is for"
        )


def _brokers(addresses: str) -> set[str]:
    return {_folded(each.strip()) for each in addresses.split(",") if each.strip()}


def _folded(address: str) -> str:
    """Return an address in lower case.

    An address with other letters than ASCII's stays as it is: such a letter may become one of ASCII.
    """
    return address.lower() if address.isascii() else address


def connection_with_secrets(**shown: Any) -> KafkaConnection:
    """Return a connection of these fields, and of what only the environment tells.

    The environment tells the passwords, which are redacted from now on, and how other clusters are reached
    (TIDEGATE_DESTINATIONS_FILE). Raises ``SettingsError``.
    """
    secrets = _set_variables(_SECRET_FIELDS)
    for secret in secrets.values():
        remember_secret(secret)
    return KafkaConnection(**shown, **secrets, destinations=destinations_of_environment())


def _set_variables(fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields whose variable is set and not empty."""
    found = {name: os.environ.get(f"TIDEGATE_{name.upper()}") for name in fields}
    return {name: value for name, value in found.items() if value}
