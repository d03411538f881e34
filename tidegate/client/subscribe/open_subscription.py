"""The interface of every open subscription: it gives its batches to loops, to loops of asyncio, and to
callbacks.

A batch is delivered in three steps, with each of these ways:

1. The consumer applies it.
2. The consumer stores its token, best in the transaction of step 1.
3. ``settle`` says that the token is stored: a key table need not go back to an earlier one any more.

``deliver`` does steps 2 and 3 after the callback. A process that ends between 1 and 2 gets the batch again,
one that ends after 2 does not.

A call of ``next`` that is interrupted gives no batch. If it may have read rows, the subscription cannot be
used any more: each later call raises ``CallInterrupted``. If it had only waited, the next call goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from tidegate.client.subscribe.batch_stream import READ_AHEAD, BatchStream, in_thread
from tidegate.client.subscribe.state.checkpoint import HeldCheckpoint
from tidegate.subscribe.updates.first_error import FirstError


class AnyBatch(Protocol):
    """The properties that batches of all subscriptions have."""

    @property
    def is_snapshot(self) -> bool:
        """Whether the snapshot is complete with this batch."""

    @property
    def is_partial(self) -> bool:
        """Whether it is a chunk of a snapshot, and more of the snapshot follows. Such a chunk has no
        token."""

    @property
    def token(self) -> object | None:
        """The token with which a subscription resumes after this batch. The consumer stores its text.

        ``None`` if a subscription can only begin again with a snapshot.
        """


BatchT = TypeVar("BatchT", bound=AnyBatch)


class OpenSubscription(ABC, Generic[BatchT]):
    """A subscription that is open. Close it, or use it in ``with`` or ``async with``.

    One thread or task takes its batches, by one of ``next``, ``for``, ``async for`` and ``deliver``.
    """

    def __init__(self) -> None:
        self._first_error = FirstError()
        self._stream: BatchStream[BatchT] | None = None

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether UP TO is reached, the feed has succeeded, or the subscription is closed."""

    @abstractmethod
    def settle(self, batch: BatchT) -> None:
        """Say that the batch's token is stored (step 3)."""

    @abstractmethod
    def _next(self, timeout_s: float | None) -> BatchT | None:
        """See ``next``."""

    def _only_waited(self) -> bool:
        """Whether the last call of ``_next`` was interrupted while it waited, and had taken nothing."""
        return False

    @abstractmethod
    def _close(self) -> None:
        """Close everything. No call of ``_next`` is running any more."""

    def next(self, timeout_s: float | None = None) -> BatchT | None:
        """Return the next batch; ``None`` at the end, and when none has come within ``timeout_s``.

        A batch may have no rows. Raises what `RowGate` and `Subscription` raise, ``HistoryLost`` where
        retention has overtaken the subscription, ``ObjectDropped`` for a topic that was deleted; each later
        call raises the same. Raises ``CallInterrupted`` after a call that was interrupted, unless that had
        only waited.
        """
        if self._only_waited():
            self._first_error.forgive()
        with self._first_error:
            return self._next(timeout_s)

    def __iter__(self) -> Iterator[BatchT]:
        while (batch := self.next()) is not None:
            yield batch

    def stream(self, ahead: int = READ_AHEAD) -> BatchStream[BatchT]:
        """Return the batches for asyncio: at most ``ahead`` are read before they are asked for.

        Call it in a task. A subscription has one stream: a second call returns the first one's.
        """
        if self._stream is None:
            self._stream = BatchStream(self, ahead)
        return self._stream

    def __aiter__(self) -> BatchStream[BatchT]:
        return self.stream()

    def deliver(
        self,
        on_snapshot: Callable[[BatchT], object],
        on_update: Callable[[BatchT], object],
        checkpoint: HeldCheckpoint | None = None,
    ) -> None:
        """Call ``on_snapshot`` with the batch that completes the snapshot, ``on_update`` with each other one.

        If the snapshot comes in chunks, ``on_snapshot`` gets each chunk too. Before each chunk the checkpoint
        has to be still held.
        Returns at the end of the subscription. When a callback has returned, the batch's token is stored in
        ``checkpoint``, and the batch is settled. If a callback raises an error or is interrupted, delivery
        ends with it, and the batch counts as not delivered: each later call raises, since it would go on
        after the batch. Raises as ``next``, and ``Fenced`` if another process has acquired the checkpoint.
        """
        for batch in self:
            try:
                if checkpoint is not None and batch.is_partial:
                    checkpoint.require_held()
                (on_snapshot if batch.is_snapshot or batch.is_partial else on_update)(batch)
                if checkpoint is not None and batch.token is not None:
                    checkpoint.commit(str(batch.token))
                self.settle(batch)
            except BaseException as error:
                self._first_error.keep(error)
                raise

    async def deliver_async(
        self,
        on_snapshot: Callable[[BatchT], Awaitable[object]],
        on_update: Callable[[BatchT], Awaitable[object]],
        checkpoint: HeldCheckpoint | None = None,
    ) -> None:
        """Do what ``deliver`` does, with callbacks that are awaited. ``checkpoint`` is asked in a thread."""
        async for batch in self:
            try:
                if checkpoint is not None and batch.is_partial:
                    await in_thread(checkpoint.require_held)
                await (on_snapshot if batch.is_snapshot or batch.is_partial else on_update)(batch)
                if checkpoint is not None and batch.token is not None:
                    await in_thread(checkpoint.commit, str(batch.token))
                self.settle(batch)
            except BaseException as error:
                self.stream().fail(error)
                raise

    def close(self) -> None:
        """End the subscription. If a thread reads for ``async for``, wait for its end, about 0.2 s at
        most."""
        if self._stream is not None:
            self._stream.stop()
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._stream is not None:
                await self._stream.aclose()
        finally:  # also for a task that is cancelled meanwhile
            await in_thread(self._close)
