"""The outlets of a log partition: which sink the rows of a feed go to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.unit.worker.hand_limits import PATIENT
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.lifecycle.control import Removed
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.partition_outlets import Outlets

_FEED = FeedId("feed")
_ROW = OutputRecord("t", 0, b"k", b"v", 0, [])


class _Sink:
    """Takes everything."""

    is_over = is_held = False

    def __init__(self) -> None:
        self.barriers: list[Barrier] = []

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        self.barriers.append(barrier)
        return len(rows)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_the_next_epoch_of_a_feed_that_was_removed_has_a_sink_of_its_own(*, acknowledged: bool) -> None:
    """It may be on another cluster. Before `Removed` is durable every row of the epoch before is
    acknowledged, or its feed is detached: nobody waits for the others."""

    async def run() -> tuple[int, int]:
        opened: list[_Sink] = []

        def open_sink() -> _Sink:
            opened.append(_Sink())
            return opened[-1]

        outlets = Outlets(0, lambda _: open_sink, PATIENT, lambda: 0.0, lambda: None)
        rows = {_FEED: [_ROW]}
        outlets.send_rows(rows, outlets.barriers(rows))
        if acknowledged:
            opened[0].barriers[0].acknowledged.set_result(None)
        outlets.note([Removed(_FEED, FIRST_EPOCH, 0)])
        outlets.send_rows(rows, outlets.barriers(rows))
        return len(opened), len(opened[-1].barriers)

    assert asyncio.run(run()) == ((2, 1) if acknowledged else (1, 2))
