"""What the agents need of the application around them: Faust's, or a simulation's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from faust.types import TP

from app.assignment import Assignment
from app.fetched import FetchedBatch
from app.intake import Flow
from app.jobs_follower import JobsFollower
from app.report import FeedReport, OverlapReport, PartitionReport, SpanReporter
from app.runtime import Runtime
from app.settings import Settings
from tidegate.client.topics import Topics


class Batches(Flow, Protocol):
    """The consumer (``app.transport.BatchConsumer``)."""

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]: ...
    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]: ...
    async def committed_or_earliest(self, tp: TP) -> int: ...
    def completed(self, tp: TP, offset: int) -> None: ...


class Shell(Protocol):
    """The application (``app.application.Application``)."""

    settings: Settings
    topic_names: Topics
    assignment: Assignment
    runtime: Runtime
    follower: JobsFollower
    partitions_report: Callable[[], tuple[PartitionReport, ...]]
    feeds_report: Callable[[], tuple[FeedReport, ...]]
    overlaps_report: Callable[[], tuple[OverlapReport, ...]]
    ranges_report: SpanReporter

    @property
    def batches(self) -> Batches: ...

    @property
    def agent(self) -> Callable[..., Callable[[Any], Any]]:
        """Faust's decorator for agents."""

    def batch_topic(self, name: str) -> Any: ...
    async def deliver(self, stream: Any, offer: Callable[[FetchedBatch], None]) -> None: ...
