"""Prepares what a feed needs before it starts: its topics, and its markers' schemas.

A new feed holds the log partitions meanwhile, so it must not wait for a server. A server that has gone away
since it was asked (``tidegate.worker.feeds.admission``) fails the feed. A feed that began in an earlier epoch
starts in the past and holds no partition: that one waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from threading import Event
from typing import Final, TypeVar

import structlog

from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.encoding.encoder import marker_schemas
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Prepare, waiting
from tidegate.client.kafka.record_limit import limit_of_workers
from tidegate.client.own_topics import OwnTopics
from tidegate.client.topic_preparation import prepare_topics, topics_to_announce
from tidegate.delivery.feed_start import UNPREPARED, begins, unprepared
from tidegate.errors import BrokerUnavailable, RegistryAway
from tidegate.worker.process.schema_ids import SchemaIds
from tidegate.worker.runtime import Runtime

_MARKERS_S: Final = 5.0  # the longest wait for the registration of the markers' schemas

_THREAD_S: Final = 15.0  # the longest wait for a thread of the sink's cluster

_log = structlog.get_logger("tidegate.jobs")
AnswerT = TypeVar("AnswerT")


async def prepared(
    definition: FeedDefinition,
    step: Prepare,
    cluster_id: str,
    runtime: Runtime,
    own: OwnTopics,
    feed: FeedView,
) -> StateRecord:
    """Create the feed's topics on the cluster with the id ``cluster_id``. Returns the state to be stored.

    That is the state in which the feed starts, waits or has failed. If topics are to be created that no
    record names yet, nothing is created. Instead a waiting state that names the topics is returned. The
    caller has to store it first, and then to call ``prepared`` again.
    """
    sink = runtime.sinks.of(definition, cluster_id)
    try:
        place = sink.admin, cluster_id
        await _register_markers(definition, runtime.schema_ids)
        limit = limit_of_workers(runtime.settings.max_record_bytes)
        announce = partial(topics_to_announce, definition, step, *place, limit, own)
        if announced := await _in_thread(sink.threads, announce):
            return waiting(definition, "", announced)
        prepare = partial(
            prepare_topics, definition, step, *place, runtime.settings.output_partitions, limit, own
        )
        targets, topics = await _in_thread(sink.threads, prepare)
        return begins(definition, step, targets, cluster_id, topics, own.written_to)
    except UNPREPARED as error:
        state = unprepared(definition, step, error, sink.servers, feed.stored_topics)
        return state or waiting(definition, str(error), feed.stored_topics)


async def _in_thread(threads: Executor, call: Callable[[], AnswerT]) -> AnswerT:
    """Make the call in one of the threads of a sink's cluster, and return what it returns.

    Markers of other feeds that wait for that cluster may keep all the threads. If none is free in time, the
    call is not begun, and ``BrokerUnavailable`` is raised.
    """
    begun = Event()

    def make() -> AnswerT:
        begun.set()
        return call()

    calling = asyncio.get_running_loop().run_in_executor(threads, make)
    await asyncio.wait([calling], timeout=_THREAD_S)
    if not begun.is_set() and calling.cancel():
        raise BrokerUnavailable(
            f"markers of other feeds wait for the cluster, and no thread was free for {_THREAD_S:.0f} s"
        )
    return await calling


async def _register_markers(definition: FeedDefinition, schema_ids: SchemaIds) -> None:
    """Register the schemas of the feed's markers, if they have any.

    A refusal fails the feed before it runs. A registry that is silent holds back no partition: the feed
    starts, and its markers ask again.
    """
    schemas = marker_schemas(definition)
    if not schemas:
        return
    url = definition.options.confluent_schema_registry
    try:
        await asyncio.wait_for(schema_ids.try_ids(url, definition.id, schemas), _MARKERS_S)
    except (RegistryAway, TimeoutError) as error:
        cause = str(error) or f"no answer in {_MARKERS_S:.0f} s"
        _log.warning(
            "a feed starts, and its markers wait until the registry has given their schemas ids",
            feed=definition.id,
            cause=cause,
        )
