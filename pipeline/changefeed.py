"""``spark-submit pipeline/changefeed.py``: the feeds of an application as a Spark query.

The same as ``tidegate spark changefeed``, whose options it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from pipeline.changefeed_query import QueryOptions, changefeed_query, create_topics
from pipeline.session import start_session
from tidegate.changefeed.definition import define_feed
from tidegate.changefeed.feed import FeedId
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.jobs import Jobs


@dataclass(frozen=True, slots=True)
class Placement:
    """Where Spark runs: ``master`` as Spark names it, empty for what ``spark-submit`` says; and the
    connector's ``jars``, empty to have Spark resolve it."""

    master: str = ""
    jars: Sequence[Path] = ()


def create_feed(options: QueryOptions, statement: str) -> FeedId:
    """Define a feed of the application; the query takes it up. Raises ``StatementError``."""
    now_ns = time.time_ns()
    definition = define_feed(statement, new_feed_id(now_ns), now_ns).definition
    create_topics(options)
    Jobs(options.connection, options.app_id).create(definition)
    return definition.id


def run_changefeeds(
    options: QueryOptions,
    placement: Placement,
    started: Callable[[StreamingQuery], object] = lambda _: None,
) -> None:
    """Run the application's feeds until the query ends, or this process is interrupted.

    Raises what the query ended with.
    """
    session = start_session(
        f"tidegate {options.app_id}", master=placement.master or None, jars=placement.jars
    )
    try:
        with changefeed_query(session, options) as query:
            started(query)
            query.awaitTermination()
    finally:
        session.stop()


if __name__ == "__main__":
    from tidegate.cli.spark import changefeed

    changefeed()
