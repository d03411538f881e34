"""Options of every command that talks to Kafka. Their environment variables are those of the worker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tidegate.changefeed.definition.names import is_topic_name
from tidegate.cli.options.finite_numbers import MOST_ANSWER_S, Seconds
from tidegate.client.kafka.connection import MECHANISMS, PROTOCOLS
from tidegate.client.kafka.environment import SHOWN_FIELDS, connection_with_secrets

_Command = TypeVar("_Command", bound=Callable[..., Any])

_TOPIC_CHARACTERS: Final = 200

_OPTIONS = (
    click.option(
        "--bootstrap-servers",
        "-b",
        envvar="TIDEGATE_BOOTSTRAP_SERVERS",
        default="127.0.0.1:9092",
        show_default=True,
        show_envvar=True,
        help="Kafka brokers to begin with: host:port, comma-separated.",
    ),
    click.option(
        "--security-protocol",
        envvar="TIDEGATE_SECURITY_PROTOCOL",
        type=click.Choice(PROTOCOLS),
        default="PLAINTEXT",
        show_default=True,
        show_envvar=True,
        help="How to talk to Kafka.",
    ),
    click.option(
        "--ssl-ca-location",
        envvar="TIDEGATE_SSL_CA_LOCATION",
        show_envvar=True,
        metavar="FILE",
        help="PEM file of the authorities that sign the brokers' certificates.",
    ),
    click.option(
        "--ssl-certificate-location",
        envvar="TIDEGATE_SSL_CERTIFICATE_LOCATION",
        show_envvar=True,
        metavar="FILE",
        help="PEM file of this client's certificate.",
    ),
    click.option(
        "--ssl-key-location",
        envvar="TIDEGATE_SSL_KEY_LOCATION",
        show_envvar=True,
        metavar="FILE",
        help="PEM file of its private key; TIDEGATE_SSL_KEY_PASSWORD has the key's password.",
    ),
    click.option(
        "--sasl-mechanism",
        envvar="TIDEGATE_SASL_MECHANISM",
        type=click.Choice(MECHANISMS),
        default="SCRAM-SHA-512",
        show_default=True,
        show_envvar=True,
        help="How to log in.",
    ),
    click.option(
        "--sasl-username",
        envvar="TIDEGATE_SASL_USERNAME",
        show_envvar=True,
        help="User to log in as; TIDEGATE_SASL_PASSWORD has the password.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=Seconds(positive=True, most_s=MOST_ANSWER_S),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for an answer of Kafka.",
    ),
)


def kafka_options(command: _Command) -> Callable[..., Any]:
    """Give a command the options of a connection; it gets a ``KafkaConnection`` named ``connection``.

    TIDEGATE_DESTINATIONS_FILE says how to reach other clusters. Passwords come only from the environment,
    since every user of the machine can read arguments.
    """

    @functools.wraps(command)
    def connected(**arguments: Any) -> Any:
        shown = {name: arguments.pop(name) for name in (*SHOWN_FIELDS, "timeout_s")}
        return command(connection=connection_with_secrets(**shown), **arguments)

    for option in reversed(_OPTIONS):
        connected = option(connected)
    return connected


def _of_topics(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """Return ``text``, a part of topics' names. Raises ``click.BadParameter`` if it is longer than
    ``_TOPIC_CHARACTERS``, or has a character that no topic's name may have.
    """
    if not is_topic_name(f"{text}raftlog") or len(text) > _TOPIC_CHARACTERS:
        raise click.BadParameter(
            "topics are named with it, so it has letters and digits of ASCII, '.', '_' and '-' alone, and at "
            f"most {_TOPIC_CHARACTERS} of them"
        )
    return text


app_id_option = click.option(
    "--app-id",
    callback=_of_topics,
    envvar="TIDEGATE_APP_ID",
    default="tidegate",
    show_default=True,
    show_envvar=True,
    help="Application id of the workers.",
)

data_dir_option = click.option(
    "--data-dir",
    envvar="TIDEGATE_DATA_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    show_envvar=True,
    help="Data directory of the worker on this machine.",
)

topic_prefix_option = click.option(
    "--topic-prefix",
    callback=_of_topics,
    envvar="TIDEGATE_TOPIC_PREFIX",
    default="",
    show_envvar=True,
    help="Prefix of the log topic.",
)
