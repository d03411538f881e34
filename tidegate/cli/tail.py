"""``tidegate tail``: prints rows and markers as they come."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import islice

import click

from tidegate.changefeed.definition.feed import FeedId, FeedState, feed_id
from tidegate.cli.failure import show_failure
from tidegate.cli.kafka_options import app_id_option, kafka_options
from tidegate.cli.printing import echo
from tidegate.cli.reading import Asked, Reading, choose_reading, reading_options
from tidegate.client.followed_feed import FollowedFeed
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.tail import TailFrom, line_of, tail_topics
from tidegate.verify import TopicRecord


@click.command()
@reading_options
@click.option(
    "--from",
    "begin",
    type=click.Choice([begin.value for begin in TailFrom]),
    default=None,
    help="Where to begin. [default: beginning; end with --follow]",
)
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Go on with new records, until you interrupt it; with --feed also until the feed has ended.",
)
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Stop after so many records.")
@app_id_option
@kafka_options
@click.pass_context
def tail(
    ctx: click.Context,
    connection: KafkaConnection,
    app_id: str,
    asked: Asked,
    begin: str | None,
    follow: bool,
    limit: int | None,
) -> None:
    """Print rows and markers of output topics, one line each: topic[partition]@offset, and the content.

    The exit status is 1 if the feed that was followed has failed.
    """
    chosen = choose_reading(connection, app_id, asked)
    start = TailFrom(begin or ("end" if follow else "beginning"))
    if not follow or asked.feed_name is None:
        _print(chosen, tail_topics(chosen.connection, chosen.topics, start, follow=follow), limit)
        return
    id_ = feed_id(asked.feed_name)
    with Jobs(connection, app_id).watch(id_) as feed:
        followed = FollowedFeed(feed.look)
        records = tail_topics(chosen.connection, chosen.topics, start, follow=True, ended=followed.has_ended)
        if _print(chosen, records, limit, followed.record_came):
            _say_end(ctx, id_, followed)


def _print(
    chosen: Reading,
    records: Generator[TopicRecord, None, None],
    limit: int | None,
    record_came: Callable[[], object] = lambda: None,
) -> bool:
    """Print ``records``; return whether all were printed, without an interrupt and below the limit."""
    count = 0
    try:
        for record in islice(records, limit):
            record_came()
            echo(line_of(record, chosen.decoder_of(record.topic)))
            count += 1
    except KeyboardInterrupt:
        return False  # the user's way to end --follow
    finally:
        records.close()
    return count != limit


def _say_end(ctx: click.Context, id_: FeedId, followed: FollowedFeed) -> None:
    match followed.state():
        case FeedState.FAILED:
            show_failure(f"Feed {id_} has failed, and {followed.outlook()}. The reason: {followed.reason()}")
            ctx.exit(1)
        case FeedState.SUCCEEDED:
            echo(f"Feed {id_} has succeeded: its scan is complete, with all rows written.", err=True)
        case _:
            echo(f"Feed {id_} was dropped, and {followed.outlook()}.", err=True)
