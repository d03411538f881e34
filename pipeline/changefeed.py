"""``spark-submit pipeline/changefeed.py``: the feeds of an application as a Spark query.

The same as ``tidegate spark changefeed``, whose options it takes.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from pipeline.changefeed_query import QueryOptions, changefeed_query, create_topics
from pipeline.session import start_session
from tidegate.changefeed.definition import define_feed
from tidegate.changefeed.feed import FeedId
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.jobs import Jobs

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_S: Final = 1


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
    """Run the application's feeds until the query ends, or this process gets SIGINT or SIGTERM.

    Raises what the query ended with. Only the main thread may call it.
    """
    session = start_session(
        f"tidegate {options.app_id}", master=placement.master or None, jars=placement.jars
    )
    try:
        with _asked_to_end() as asked, changefeed_query(session, options) as query:
            started(query)
            while not query.awaitTermination(_LOOK_S) and not asked.is_set():
                pass
    finally:
        session.stop()


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """Set by the signals. Spark's own handler of SIGINT would speak to Java amid another call."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    from tidegate.cli.spark import changefeed

    changefeed()
