"""The part of the application that agents use. The application is Faust's, or a simulation's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from faust.types import TP

from tidegate.client.kafka.topics import Topics
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.intake import Flow
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.process.settings import Settings
from tidegate.worker.runtime import Runtime


class Batches(Flow, Protocol):
    """The consumer of batches (``tidegate.worker.kafka.transport.BatchConsumer``)."""

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]: ...
    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]: ...
    async def committed_or_earliest(self, tp: TP) -> int: ...
    def completed(self, tp: TP, offset: int) -> None: ...


class Shell(Protocol):
    """The application as agents use it (``app.application.Application``)."""

    settings: Settings
    topic_names: Topics
    assignment: Assignment
    runtime: Runtime
    follower: JobsFollower

    @property
    def batches(self) -> Batches: ...

    @property
    def agent(self) -> Callable[..., Callable[[Any], Any]]:
        """The decorator of Faust that makes an agent."""

    def batch_topic(self, name: str) -> Any: ...
    async def deliver(self, stream: Any, receive: Callable[[FetchedBatch], None]) -> None: ...
