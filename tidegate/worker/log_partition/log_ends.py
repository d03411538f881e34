"""Asks the broker every few seconds where partitions end, if no fetch tells it.

A halted partition fetches nothing, and its lag grows. Without these questions reports would go on to show the
lag that it had when it was halted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import structlog
from faust.types import TP

from tidegate.worker.kafka.intake import Intake

ASK_S: Final = 5.0

_log = structlog.get_logger("tidegate.log_ends")


class Broker(Protocol):
    """The client that is asked (``tidegate.worker.kafka.transport.BatchConsumer``)."""

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]: ...


async def watch_ends(intakes: Callable[[], Iterable[Intake]], broker: Callable[[], Broker]) -> None:
    """Ask for the ends of log partitions every few seconds, and tell them to the intakes. Runs for ever.

    It asks only for intakes that do not learn their partition's end from its records.
    """
    while True:
        await asyncio.sleep(ASK_S)
        await ask_for_ends([intake for intake in intakes() if not intake.hears_of_end], broker())


async def ask_for_ends(deaf: Iterable[Intake], broker: Broker) -> None:
    """Ask for the ends of the partitions of these intakes in one request, and tell each intake its end.

    Tells nothing on failure.
    """
    by_place = {intake.tp: intake for intake in deaf}
    if not by_place:
        return
    try:
        ends = await broker.highwaters(*by_place)
    except Exception as error:  # a figure for operators is no reason to end; the next time may succeed
        _log.info("the ends of log partitions are not known, so lag is not", cause=str(error) or repr(error))
        return
    for tp, end in ends.items():
        by_place[tp].note_end(end)
