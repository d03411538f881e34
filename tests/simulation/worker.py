"""One worker process: the real agents on a simulated machine, put together as ``app.main`` does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.application import stop_in_order
from app.main import add_agents
from schemas.schema_ids import RegistrySchemaIds
from tests.simulation.clients import SimMachine
from tests.simulation.disk import Disk, MemoryStore
from tests.simulation.group import Group, Member
from tests.simulation.registry import Registry, RegistryClients
from tests.simulation.scheduler import Process
from tidegate.client.kafka.topics import Topics
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.operations.report import AgentReports
from tidegate.worker.process.ending import end_process, leave_process
from tidegate.worker.process.settings import Settings
from tidegate.worker.runtime import Runtime
from tidegate.worker.state.store import LocalStore, OpenStore


class SimShell:
    """See ``tidegate.worker.shell.Shell``."""

    runtime: Runtime
    follower: JobsFollower

    def __init__(self, settings: Settings, group: Group) -> None:
        self.settings = settings
        self._group = group
        self.topic_names = Topics.of(settings)
        self.assignment = Assignment(settings.drain_timeout_ms / 1000)
        self.reports = AgentReports()
        self._member: Member | None = None
        self.begun = False

    async def stop(self) -> None:
        """Stop as at SIGTERM, up to the end of the process."""
        if not self.begun:
            leave_process("the worker stops before it began; nothing was read")
        await stop_in_order(self, self._leave_group)
        if held := [*self.reports.partitions(), *self.reports.feeds()]:
            end_process(RuntimeError(f"a worker that has stopped holds {held}"))
        leave_process("the worker has stopped")

    async def _leave_group(self) -> None:
        await self.batches.leave(self._group)

    @property
    def batches(self) -> Member:
        assert self._member is not None
        return self._member

    def become(self, member: Member) -> None:
        """Take the consumer, once there is one."""
        self._member = member

    def agent(self, *_: Any, **__: Any) -> Callable[[Any], Any]:
        """Return a decorator of agents. Their batches come from the group's member, not from Faust's
        streams."""
        return lambda work: work

    def batch_topic(self, name: str) -> Any:
        return name

    async def deliver(self, stream: Any, receive: Callable[[FetchedBatch], None]) -> None:
        raise NotImplementedError


def start_worker(
    process: Process,
    machine: SimMachine,
    disk: Disk,
    settings: Settings,
    group: Group,
    registry: Registry,
    new_member: Callable[[Assignment], Member],
    open_copy: OpenStore | None = None,
) -> tuple[SimShell, Member]:
    """Begin a worker in ``process``. ``open_copy`` opens its local copies of state, in place of ``disk``."""
    shell = SimShell(settings, group)

    def open_store(path: Path) -> LocalStore:
        return MemoryStore(path, disk, process)

    schema_ids = RegistrySchemaIds(RegistryClients(process, registry), background=machine.background)
    shell.reports = add_agents(shell, open_copy or open_store)
    member = new_member(shell.assignment)
    shell.become(member)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        shell.runtime = await loop.run_in_executor(None, Runtime, settings, schema_ids, machine)
        shell.follower = JobsFollower(settings, machine)
        shell.begun = True
        group.join(member)

    async def guarded() -> None:
        try:
            await main()
        except Exception as error:
            process.failed(error)

    process.loop.run_soon(guarded())
    return shell, member
