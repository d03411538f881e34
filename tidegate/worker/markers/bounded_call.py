"""Calls of a transactional producer that are given up after a time.

All feeds share a few threads. Without a limit, a feed whose topic has too few replicas in sync would keep a
thread for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from tidegate.worker.kafka.transaction import WorkerTransactionalProducer

#: The seconds that a call may take. That is far below the 300 s after which Kafka ends a transaction itself.
PATIENCE_S: Final = 60.0


async def bounded(
    producer: WorkerTransactionalProducer,
    call: Callable[[], object],
    threads: Executor,
    patience_s: float | None = None,
) -> None:
    """Make a call of ``producer`` in a thread, and give the producer up ``patience_s`` after the call began.

    ``patience_s`` is in seconds; ``None`` stands for ``PATIENCE_S``. The wait for a thread does not count,
    since it is no fault of Kafka. Raises what the call raises: ``GivenUpError`` if it was given up.
    """
    patience_s = PATIENCE_S if patience_s is None else patience_s
    loop, begun_at = asyncio.get_running_loop(), list[float]()

    def make() -> None:
        begun_at.append(loop.time())
        call()

    asked = loop.run_in_executor(threads, make)
    while not asked.done():
        left_s = begun_at[0] + patience_s - loop.time() if begun_at else patience_s
        if left_s <= 0:
            producer.give_up()
            break
        await asyncio.wait([asked], timeout=left_s)
    await asked
