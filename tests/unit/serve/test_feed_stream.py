"""A stream with a reader of its own gives each batch, or ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from tests.unit.serve.postgres.served import run
from tidegate.client.subscribe import LiveSubscription
from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.serve.feed_stream import FeedStream
from tidegate.serve.held_batches import COUNTED_BYTES
from tidegate.serve.kept_memory import KeptMemory, KeptShare
from tidegate.serve.stream_source import StreamColumns
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier


class Reader:
    """Gives batches of so many bytes. Like a query it pauses before each."""

    def __init__(self, share: KeptShare, *sizes: int) -> None:
        self._share = share
        self._sizes = list(enumerate(sizes, 1))
        self.ended = False
        self.as_of = Timestamp(0)

    def next(self, _: float) -> SubscriptionBatch:
        self._share.pause()
        wall, size = self._sizes.pop(0)
        return SubscriptionBatch(Frontier(Timestamp(wall)), ((1, "a" * size),), False, None, False)

    def close(self) -> None:
        self._share.pause()


def stream_of(memory: KeptMemory, threads: ThreadPoolExecutor, *sizes: int) -> tuple[FeedStream, KeptShare]:
    share = memory.share()
    reader = cast(LiveSubscription, cast(Any, Reader(share, *sizes)))
    return FeedStream(reader, StreamColumns((), ()), threads, lambda _: None, share=share), share


def test_a_batch_without_room_ends_the_stream_and_the_next_one_is_not_given() -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            stream, _ = stream_of(KeptMemory(COUNTED_BYTES), threads, 10, 2 * COUNTED_BYTES, 10)
            assert await stream.next() is not None
            for _ in range(2):
                with pytest.raises(LimitExceeded):
                    await stream.next()

    run(test)


def test_a_stream_that_is_closed_while_it_reads_ends_without_an_error() -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            stream, share = stream_of(KeptMemory(COUNTED_BYTES), threads, 10)
            share.close()
            assert await stream.next() is None

    run(test)
