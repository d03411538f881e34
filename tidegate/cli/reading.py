"""Chooses which topics a command reads, and how: topics on the command line, or those of a feed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from tidegate.access.destinations import Destinations, RegistryEntry
from tidegate.changefeed.definition.feed import feed_id
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.client.contained_decoder import ContainedDecoder
from tidegate.client.feed_topics import FeedTopics, row_decoder
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.verify.auditor import OFFSET_MARKERS

_OPTIONS = (
    click.argument("topics", metavar="[TOPIC]...", nargs=-1),
    click.option(
        "--feed",
        "feed_name",
        metavar="ID",
        help="The feed that writes the topics. Without TOPIC, all of its topics are read.",
    ),
    click.option(
        "--envelope",
        type=click.Choice([envelope.value for envelope in Envelope]),
        default=Envelope.WRAPPED.value,
        show_default=True,
        help="Envelope of the records, where --feed does not tell it.",
    ),
    click.option(
        "--format",
        "format_name",
        type=click.Choice([format_.value for format_ in Format]),
        default=Format.JSON.value,
        show_default=True,
        help="Format of the records, where --feed does not tell it.",
    ),
    click.option(
        "--registry",
        envvar="TIDEGATE_SCHEMA_REGISTRY",
        default="",
        show_envvar=True,
        metavar="URL",
        help="Schema registry of Avro records, where --feed does not tell it. Give a URL with a password by"
        " the environment: arguments can be read by every user.",
    ),
)
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Asked(NamedTuple):
    """The command line's description of the records to read."""

    topics: tuple[str, ...]
    feed_name: str | None
    envelope: str
    format_name: str
    registry: str

    @property
    def options(self) -> FeedOptions:
        """The options of a feed that matter for reading its records.

        Raises ``click.UsageError`` for Avro without a registry.
        """
        format_ = Format(self.format_name)
        if format_ is Format.AVRO and not self.registry:
            raise click.UsageError("--format avro needs --registry, or --feed, which names it.")
        registry = self.registry if format_ is Format.AVRO else ""
        return FeedOptions(format_, Envelope(self.envelope), confluent_schema_registry=registry)


def reading_options(command: _Command) -> Callable[..., Any]:
    """Give a command the options that say what to read; it gets them as ``asked``."""

    @functools.wraps(command)
    def reading(**arguments: Any) -> Any:
        asked = Asked(**{name: arguments.pop(name) for name in Asked._fields})
        return command(asked=asked, **arguments)

    for option in reversed(_OPTIONS):
        reading = option(reading)
    return reading


class Reading(NamedTuple):
    """Topics to read, the connection to their cluster, their decoder, and the feed if it was named.

    ``jobs`` has that feed, and the others of its application.
    """

    topics: tuple[str, ...]
    connection: KafkaConnection
    decoder: RecordDecoder
    feed: FeedTopics | None
    jobs: Jobs | None = None

    @property
    def resolved_topic(self) -> str:
        """The topic of the feed's markers; empty when they stand among the rows, or the feed is not known."""
        return "" if self.feed is None else self.feed.resolved_topic

    def decoder_of(self, topic: str) -> RecordDecoder:
        """Return the decoder of this topic's records."""
        return OFFSET_MARKERS if topic == self.resolved_topic else self.decoder


def choose_reading(connection: KafkaConnection, app_id: str, asked: Asked) -> Reading:
    """Return the reading that was asked for. ``connection`` is to the workers' cluster.

    Raises ``UsageError`` for topics or options that do not fit, and what ``Jobs`` raises.
    """
    topics, feed_name = asked.topics, asked.feed_name
    if feed_name is None:
        if not topics:
            raise click.UsageError("Name at least one TOPIC, or a feed by --feed.")
        return Reading(topics, connection, _decoder(asked.options), None)
    id_ = feed_id(feed_name)
    jobs = Jobs(connection, app_id)
    feed = FeedTopics.of(id_, jobs.feed(id_))
    unknown = sorted(set(topics) - set(feed.all_topics))
    if unknown:
        raise click.UsageError(f"Feed {id_} does not write {', '.join(unknown)}.")
    decoder = ContainedDecoder(feed.decoder(connection.destinations))
    return Reading(topics or feed.all_topics, feed.connection(connection), decoder, feed, jobs)


def _decoder(options: FeedOptions) -> RecordDecoder:
    """Return a decoder of records with these options.

    The registry is allowed, since the user of the command has named it.
    """
    named = options.confluent_schema_registry
    urls = (parse_registry_uri(named).normal_url,) if named else ()
    allowed = Destinations(registries=(("--registry", RegistryEntry(urls)),))
    return ContainedDecoder(row_decoder(options, allowed, whole=False))
