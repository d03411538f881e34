"""Batches for asyncio: a thread reads them, and a few of them wait for the consumer.

1. The thread takes one of ``ahead`` places. No place is free while ``ahead`` batches wait, and nothing is
   read then. So a slow consumer holds back the reader, and Kafka keeps the rows.
2. It reads the next batch. This blocks only the thread.
3. It hands the batch to the event loop.
4. The consumer takes the batch, which gives its place back.

A call that is cancelled loses no batch: the next call gets it. The end of the subscription, or the error that
ends it, comes after the batches that were read before it. It comes again at every later call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from tidegate.subscribe.updates.first_error import FirstError

READ_AHEAD: Final = 2
#: The longest time of one wait of the thread. Closing may take as long.
_POLL_S: Final = 0.2

BatchT = TypeVar("BatchT")
_Readable = TypeVar("_Readable", covariant=True)
_Answer = TypeVar("_Answer")


class BatchSource(Protocol[_Readable]):
    """An open subscription that gives batches to the thread that asks."""

    @property
    def ended(self) -> bool:
        """Whether no batch will come any more."""

    def next(self, timeout_s: float | None = None) -> _Readable | None:
        """Return the next batch; ``None`` if none has come within ``timeout_s`` seconds."""


class _End(NamedTuple):
    """The end of a stream: no batch follows. ``error`` has ended it; ``None`` if every batch was read."""

    error: BaseException | None


async def in_thread(call: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """Run a call that blocks in a thread. A task that is cancelled meanwhile still waits for the call."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:  # the thread cannot be stopped, however often that is asked
            cancelled = error
    if cancelled is None:
        return running.result()
    running.exception()  # the call's error is looked at, and dropped: the task ends as cancelled
    raise cancelled


class BatchStream(Generic[BatchT]):
    """The batches of one source for one event loop.

    Make it in a task. Close it, or use it in ``async with``.
    """

    def __init__(self, source: BatchSource[BatchT], ahead: int = READ_AHEAD) -> None:
        """``ahead`` is how many batches at most are read before they are asked for.

        Raises ``ValueError`` if that is less than one.
        """
        if ahead < 1:
            raise ValueError(f"{ahead} batches ahead would never be read")
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[BatchT | _End] = asyncio.Queue()
        self._places = threading.Semaphore(ahead)
        self._stopped = threading.Event()
        self._failed = FirstError()
        # A process that ends without closing its subscriptions does not wait for Kafka.
        self._thread = threading.Thread(target=self._read, name="subscription", daemon=True)
        self._thread.start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchT:
        """Return the next batch, as soon as there is one. Raises what the source raises."""
        self._failed.require_none()
        found = await self._waiting.get()
        if not isinstance(found, _End):
            self._places.release()
            return found
        self._waiting.put_nowait(found)  # for every later call, and for others that wait
        if found.error is not None:
            raise found.error
        raise StopAsyncIteration

    def fail(self, error: BaseException) -> None:
        """Make each later call raise ``error``: the batch that was given last counts as not delivered."""
        self._failed.keep(error)

    def stop(self) -> None:
        """Stop the thread, and wait until it has ended. The source is not closed."""
        self._stopped.set()
        self._thread.join()

    async def aclose(self) -> None:
        """Stop the thread, as ``stop`` does, without blocking the event loop. A second call does nothing."""
        await in_thread(self.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            while (batch := self._next()) is not None:
                self._tell(batch)
        except BaseException as raised:  # of any kind: whoever waits would wait for ever
            error = raised
        self._tell(_End(error))

    def _next(self) -> BatchT | None:
        """Wait for a place, then for a batch; ``None`` at the end, and after ``stop``."""
        while not self._stopped.is_set():
            if not self._places.acquire(timeout=_POLL_S):
                continue
            while not self._stopped.is_set() and not self._source.ended:
                batch = self._source.next(_POLL_S)
                if batch is not None:
                    return batch
            return None
        return None

    def _tell(self, found: BatchT | _End) -> None:
        try:
            self._loop.call_soon_threadsafe(self._waiting.put_nowait, found)
        except RuntimeError:  # the loop is closed: nobody will ask again
            self._stopped.set()
