"""Which topics a command reads, and how: named on the command line, or those of a feed."""

from __future__ import annotations

from typing import NamedTuple

import click

from tidegate.changefeed.feed import feed_id
from tidegate.changefeed.options import Envelope
from tidegate.changefeed.record import JsonDecoder, RecordDecoder
from tidegate.client.connection import KafkaConnection
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.verify.auditor import OFFSET_MARKERS

topics_argument = click.argument("topics", metavar="[TOPIC]...", nargs=-1)
feed_option = click.option(
    "--feed", "feed_name", metavar="ID", help="The feed that writes the topics; without TOPIC, all of its."
)
envelope_option = click.option(
    "--envelope",
    type=click.Choice([envelope.value for envelope in Envelope]),
    default=Envelope.WRAPPED.value,
    show_default=True,
    help="Envelope of the records, where --feed does not tell it.",
)


class Reading(NamedTuple):
    """Topics to read, what reads their records, and the feed if it was named."""

    topics: tuple[str, ...]
    decoder: RecordDecoder
    feed: FeedTopics | None

    @property
    def resolved_topic(self) -> str:
        """The topic of the feed's markers; empty when they stand among the rows, as far as is known."""
        return "" if self.feed is None else self.feed.resolved_topic

    def decoder_of(self, topic: str) -> RecordDecoder:
        """Reads the records of this topic."""
        return OFFSET_MARKERS if topic == self.resolved_topic else self.decoder


def choose_reading(
    connection: KafkaConnection, app_id: str, topics: tuple[str, ...], feed_name: str | None, envelope: str
) -> Reading:
    """Combine what was given. Raises ``UsageError`` for neither topics nor feed, and as ``Jobs`` does."""
    if feed_name is None:
        if not topics:
            raise click.UsageError("Name at least one TOPIC, or a feed by --feed.")
        return Reading(topics, JsonDecoder(Envelope(envelope)), None)
    id_ = feed_id(feed_name)
    feed = FeedTopics.of(id_, Jobs(connection, app_id).feed(id_))
    written = (*feed.topics, feed.resolved_topic) if feed.resolved_topic else feed.topics
    unknown = sorted(set(topics) - set(written))
    if unknown:
        raise click.UsageError(f"Feed {id_} does not write {', '.join(unknown)}.")
    return Reading(topics or written, feed.decoder, feed)
