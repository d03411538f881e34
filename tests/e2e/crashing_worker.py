"""A worker that is killed at a chosen point of the commit protocol: ``crashing_worker.py <point> <nth>``.

The points are named as in docs/protocols/batches.md. Each point patches the step that follows it. At the n-th
call of that step the process gets SIGKILL, as if the machine failed there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from aiokafka.consumer.subscription_state import SubscriptionState

from agents.jobs import JobsOwner
from app.main import run_worker
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.control import Remove, Removed
from tidegate.client.kafka.transaction import TransactionalProducer
from tidegate.processor.processor import PartitionProcessor
from tidegate.worker.commit.commit_loop import CommitLoop
from tidegate.worker.commit.stepper import Stepper
from tidegate.worker.log_partition.log_partition import LogPartition
from tidegate.worker.log_partition.partition_state import PartitionState
from tidegate.worker.markers.feed_publisher import FeedPublisher
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.process.schema_ids import SchemaIds
from tidegate.worker.process.settings import Settings, load_settings
from tidegate.worker.runtime import Runtime
from tidegate.worker.state.partition_writer import PartitionWriter
from tidegate.worker.state.store import LocalStore, PartitionStore


def die() -> None:
    """Die as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def before(owner: type, method: str) -> Callable[[int], None]:
    """Die at the n-th call of the method, before it does anything."""

    def install(nth: int) -> None:
        original, calls = getattr(owner, method), Calls(nth)

        def patched(*args: Any, **kwargs: Any) -> Any:
            calls.count()
            return original(*args, **kwargs)

        setattr(owner, method, patched)

    return install


def before_one(owner: type, method: str, is_one: Callable[..., bool]) -> Callable[[int], None]:
    """Die at the n-th call of the method that is one of these, before it does anything."""

    def install(nth: int) -> None:
        original, calls = getattr(owner, method), Calls(nth)

        def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_one(*args, **kwargs):
                calls.count()
            return original(self, *args, **kwargs)

        setattr(owner, method, patched)

    return install


class Calls:
    """A counter of calls by several threads. At the n-th call the process dies, or does ``then``."""

    def __init__(self, nth: int, then: Callable[[], None] = die) -> None:
        self._left = nth
        self._then = then
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            if not self._left:
                self._then()


def after_the_rows(nth: int) -> None:
    """Die before the n-th commit of batches with rows. The rows are acknowledged then, and nothing else is
    durable."""
    original, calls = PartitionWriter.commit, Calls(nth)

    def patched(self: PartitionWriter, results: Any) -> None:
        if has_rows(results):
            calls.count()
        original(self, results)

    PartitionWriter.commit = patched  # type: ignore[method-assign]


def has_rows(results: Any) -> bool:
    """Whether any of the results was produced from a batch with rows."""
    return any(rows for result in results for rows in result.outputs.values())


def among_the_rows(nth: int) -> None:
    """Let half of the n-th batch with several rows be acknowledged, then die."""
    original, left = SharedRowProducer.send, [nth]

    def patched(self: SharedRowProducer, rows: Any, barrier: Any, first: int = 0) -> int:
        left[0] -= len(rows) > 1
        if left[0]:
            return original(self, rows, barrier, first)
        original(self, rows[: len(rows) // 2], barrier, first)
        while self.pending():
            time.sleep(0.01)
        die()
        return 0

    SharedRowProducer.send = patched  # type: ignore[method-assign]


def while_committing(nth: int) -> None:
    """Send the n-th commit, and die before the answer comes."""
    original, left = TransactionalProducer._finish, [nth]

    def patched(self: TransactionalProducer) -> None:
        if "-feed-" in self._id or "-jobs" in self._id:
            return original(self)
        left[0] -= 1
        if not left[0]:
            threading.Thread(target=original, args=(self,), daemon=True).start()
            time.sleep(0.004)
            die()
        return original(self)

    TransactionalProducer._finish = patched  # type: ignore[method-assign]


def in_an_open_transaction(nth: int) -> None:
    """Die when the records of the n-th transaction that follows rows are written, and the transaction is not
    committed."""
    commit, finish, calls, current = (
        PartitionWriter.commit,
        TransactionalProducer._finish,
        Calls(nth),
        threading.local(),
    )

    def patched_commit(self: PartitionWriter, results: Any) -> None:
        current.after_rows = has_rows(results)
        try:
            commit(self, results)
        finally:
            current.after_rows = False

    def patched_finish(self: TransactionalProducer) -> None:
        if getattr(current, "after_rows", False):
            calls.count()
        finish(self)

    PartitionWriter.commit = patched_commit  # type: ignore[method-assign]
    TransactionalProducer._finish = patched_finish  # type: ignore[method-assign]


def in_an_open_marker(nth: int) -> None:
    """Die when the records of the n-th transaction with a feed's markers are written, and it is not
    committed. Markers are the records without a key."""
    write, finish, calls, marked = (
        TransactionalProducer._write,
        TransactionalProducer._finish,
        Calls(nth),
        set[str](),
    )

    def patched_write(self: TransactionalProducer, records: Any) -> Any:
        if "-feed-" in self._id and any(record.key is None for record in records):
            marked.add(self._id)
        return write(self, records)

    def patched_finish(self: TransactionalProducer) -> None:
        if self._id in marked:
            marked.discard(self._id)
            calls.count()
        finish(self)

    TransactionalProducer._write = patched_write  # type: ignore[method-assign]
    TransactionalProducer._finish = patched_finish  # type: ignore[method-assign]


def freeze_before_commit(nth: int) -> None:
    """Stop at the n-th commit of batches with rows, until somebody lets the process go on.

    The rows are acknowledged then.
    """
    original, calls = PartitionWriter.commit, Calls(nth, lambda: os.kill(os.getpid(), signal.SIGSTOP))

    def patched(self: PartitionWriter, results: Any) -> None:
        if has_rows(results):
            calls.count()
        original(self, results)

    PartitionWriter.commit = patched  # type: ignore[method-assign]


def freeze_before_fencing(nth: int) -> None:
    """Stop before a feed's writer fences the one before it, until somebody lets the process go on.

    After the fencing it prints ``has fenced``.
    """
    original, left = TransactionalProducer.open, [nth]

    def patched(self: TransactionalProducer) -> None:
        left[0] -= "-feed-" in self._id
        if left[0]:
            return original(self)
        left[0] -= 1  # once
        os.kill(os.getpid(), signal.SIGSTOP)
        original(self)
        return print("has fenced", file=sys.stderr, flush=True)

    TransactionalProducer.open = patched  # type: ignore[method-assign]


def freeze_before_rebuilding(partitions: int) -> None:
    """Stop once so many partitions have read their changelogs, before any of them uses what it has read."""
    original, left, lock, resumed = PartitionState._rebuild, [partitions], threading.Lock(), threading.Event()

    def patched(self: PartitionState, copy: LocalStore) -> PartitionProcessor | None:
        with lock:
            left[0] -= 1
            is_last = left[0] == 0
        if is_last:
            os.kill(os.getpid(), signal.SIGSTOP)
            resumed.set()
        resumed.wait()
        return original(self, copy)

    PartitionState._rebuild = patched  # type: ignore[method-assign]


def freeze_broker_at(pid: int) -> None:
    """Freeze the broker of this process id before the first rows are sent."""
    original, left = SharedRowProducer.send, [1]

    def patched(self: SharedRowProducer, rows: Any, barrier: Any, first: int = 0) -> int:
        if left:
            left.pop()
            os.kill(pid, signal.SIGSTOP)
        return original(self, rows, barrier, first)

    SharedRowProducer.send = patched  # type: ignore[method-assign]


def hold_markers(_: int) -> None:
    """Persist no progress and write no marker: the frontier agent hangs."""

    async def patched(self: FeedPublisher, frontier: Any) -> None:
        await asyncio.sleep(3600)

    FeedPublisher._advance = patched  # type: ignore[method-assign]


def hold_rows(_: int) -> None:
    """Hand no row to the sink: its queue is full for ever, and the log is read no further."""

    def patched(self: SharedRowProducer, rows: Any, barrier: Any, first: int = 0) -> int:
        return first

    SharedRowProducer.send = patched  # type: ignore[method-assign]


def look_idle(_: int) -> None:
    """Be a worker that has run for a day: aiokafka takes its consumer for idle since the start."""
    SubscriptionState.fetcher_idle_time = 86_400.0


def fail_to_open(_: int) -> None:
    """Fail at the start with an error for which there is no sentence."""

    def patched(self: Runtime, settings: Settings, schema_ids: SchemaIds, machine: Any = None) -> None:
        raise RuntimeError("nobody thought of this")

    Runtime.__init__ = patched  # type: ignore[method-assign]


def forgets_a_feed(results: Any) -> bool:
    """Whether one of the results says that a feed was removed."""
    return any(isinstance(ack, Removed) for result in results for ack in result.acks)


POINTS: Final[dict[str, Callable[[int], None]]] = {
    "before-the-step": before(Stepper, "_run"),
    "before-the-rows": before(CommitLoop, "_produce"),
    "among-the-rows": among_the_rows,
    "after-the-rows": after_the_rows,
    "in-an-open-transaction": in_an_open_transaction,
    "while-committing": while_committing,
    "before-the-local-copy": before(PartitionStore, "write"),
    "before-completing": before(LogPartition, "_note_completed"),
    "before-the-marker": before(FeedPublisher, "_mark"),
    "in-an-open-marker": in_an_open_marker,
    "before-the-progress": before_one(
        FeedPublisher, "_persist", lambda _, high_water: high_water is not None
    ),
    "before-the-success": before_one(JobsOwner, "_store", lambda record: record.state is FeedState.SUCCEEDED),
    "before-the-removal": before_one(
        JobsOwner, "_announce", lambda _, step: isinstance(step.message, Remove)
    ),
    "before-forgetting": before_one(PartitionWriter, "commit", forgets_a_feed),
    "freeze-before-commit": freeze_before_commit,
    "freeze-before-fencing": freeze_before_fencing,
    "freeze-before-rebuilding": freeze_before_rebuilding,
    "freeze-broker-at": freeze_broker_at,
    "hold-markers": hold_markers,
    "hold-rows": hold_rows,
    "fail-to-open": fail_to_open,
    "look-idle": look_idle,
}


if __name__ == "__main__":
    POINTS[sys.argv[1]](int(sys.argv[2]))
    run_worker(load_settings())
