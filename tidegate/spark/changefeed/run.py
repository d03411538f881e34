"""Runs an application's feeds as a Spark query, and creates feeds from statements."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.access.private_files import keep_files_private
from tidegate.changefeed.definition.feed import ENDED, LASTING, Engine, FeedDefinition, FeedId
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.client_room import allow_open_files
from tidegate.client.topic_ownership import check_topics, wanted_topics
from tidegate.errors import FeedError, StatementError
from tidegate.spark.changefeed import partition_round
from tidegate.spark.changefeed.changefeed_query import ReadyQuery, changefeed_query, query_name
from tidegate.spark.changefeed.progress import Metrics
from tidegate.spark.platform.executors import Needs
from tidegate.spark.platform.kafka_source import consumers_for
from tidegate.spark.platform.logs import configure_java_logs
from tidegate.spark.platform.session import Placement, has_session, placed_session
from tidegate.spark.platform.signals import asked_to_end

_LOOK_S: Final = 1


def create_feed(
    jobs: Jobs,
    statement: str,
    engine: Engine = Engine.SPARK,
    require: Callable[[FeedDefinition], object] = lambda _: None,
    namespace: OutputNamespace = EVERYWHERE,
    destinations: Destinations = NOWHERE_ELSE,
) -> FeedId:
    """Define a feed, which the engine takes up. Return its id.

    If this statement has defined a feed before, return the id of that feed. So a command may be run again as
    it is. Raises ``StatementError`` for a statement that cannot be run, and for a changed definition. Raises
    what ``require`` raises. ``namespace`` says which topics the operator lets feeds write to,
    ``destinations`` which URLs are one schema registry.
    """
    now_ns = time.time_ns()
    definition = replace(define_feed(statement, new_feed_id(now_ns), now_ns).definition, engine=engine)
    require(definition)
    view = jobs.view()
    for feed_id, feed in view.feeds():
        if feed.status not in ENDED and _asks_for_the_same(feed.defined, statement):
            if feed.runs_on(engine):
                return feed_id
            raise StatementError(_elsewhere(feed_id, feed, engine))
    try:
        check_topics(
            definition,
            wanted_topics(definition),
            view,
            set(),
            namespace=namespace,
            destinations=destinations,
        )
    except FeedError as error:
        raise StatementError(
            f"Nothing was created: {error}. The definition of a feed does not change: leave the statement "
            "away to go on with the feeds that there are, or drop the old one first (`tidegate feed drop`)."
        ) from None
    jobs.create(definition)
    return definition.id


def _elsewhere(feed_id: FeedId, feed: FeedView, engine: Engine) -> str:
    runs_on = "" if feed.defined is None else feed.defined.engine.value
    same = f"Nothing was created: feed {feed_id} is the same, and runs on {runs_on}."
    if engine not in LASTING:
        return same
    return f"{same} Have it go on here: `tidegate feed move {feed_id} --to {engine.value}`."


def _asks_for_the_same(one: FeedDefinition | None, statement: str) -> bool:
    """Return whether the statement defines the same feed, whatever its engine and epoch.

    A time in the statement that is relative to now counts as relative to when the feed was created.
    """
    if one is None:
        return False
    other = define_feed(statement, one.id, one.created_ns).definition
    return replace(other, epoch=one.epoch, engine=one.engine, accepted=one.accepted) == one


def run_changefeeds(
    ready: ReadyQuery,
    placement: Placement,
    started: Callable[[StreamingQuery], object] = lambda _: None,
    metrics: Metrics | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Run the application's feeds until the query ends, or this process gets SIGINT or SIGTERM.

    If Spark runs in this process already, the query runs there, and other queries go on. Otherwise
    ``as_json`` says that Spark's own log lines are JSON. Raises the exception that the query ended with. Only
    the main thread may call it.
    """
    keep_files_private()
    allow_open_files()
    access = ready.options.access
    needs = Needs(partition_round.__name__, ready.checkpoint.identity_uri, access)
    config = consumers_for(ready.log.partitions)
    alone = not has_session()
    name = query_name(ready.options.app_id)
    starting = placed_session(name, placement, needs, config, access.for_spark())
    with starting as session, asked_to_end() as asked:
        if alone and as_json:
            configure_java_logs(session)
        with changefeed_query(session, ready, metrics, alone=alone) as query:
            started(query)
            while not query.awaitTermination(_LOOK_S) and not asked.is_set():
                pass
