"""Calls of a transactional producer that are given up after a time.

All feeds share a few threads. A feed whose topic has too few replicas in sync would keep one for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from tidegate.worker.kafka.transaction import WorkerTransactionalProducer

#: A call may take so long, with its wait for a thread. It is far below the 300 s after which Kafka ends a
#: transaction itself.
PATIENCE_S: Final = 60.0


async def bounded(producer: WorkerTransactionalProducer, call: Awaitable[None]) -> None:
    """Await a call of ``producer`` that runs in a thread. After ``PATIENCE_S`` the producer is given up.

    Raises what the call raises: ``GivenUpError`` if it was given up.
    """
    asked = asyncio.ensure_future(call)
    await asyncio.wait([asked], timeout=PATIENCE_S)
    if not asked.done():
        producer.give_up()
    await asked
