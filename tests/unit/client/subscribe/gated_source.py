"""A subscription whose batches a test lets out one by one, and that tells how far it was read."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from tidegate.client.subscribe.open_subscription import OpenSubscription

_LONGEST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch that is its number."""

    number: int
    chunks: int = 0

    @property
    def is_snapshot(self) -> bool:
        return self.number == self.chunks

    @property
    def is_partial(self) -> bool:
        return self.number < self.chunks

    @property
    def token(self) -> str | None:
        return None if self.is_partial else f"token {self.number}"


class GatedSubscription(OpenSubscription[NumberedBatch]):
    """Gives the batches 0, 1, ... that were let out; then ``error``, or the end.

    The first ``chunks`` batches are chunks of a snapshot, which the next one completes.
    """

    def __init__(
        self,
        let_out: int = 0,
        last: int | None = None,
        error: Exception | None = None,
        chunks: int = 0,
    ) -> None:
        super().__init__()
        self._chunks = chunks
        self._changed = threading.Condition()
        self._let_out = let_out
        self._last = last
        self._error = error
        self.given = 0
        self.settled: list[int] = []
        self.closed = 0

    @property
    def ended(self) -> bool:
        return self.closed > 0 or (self._error is None and self.given == self._last)

    def let_out(self, count: int = 1) -> None:
        """Let so many batches more be read."""
        with self._changed:
            self._let_out += count
            self._changed.notify_all()

    def wait_until_given(self, count: int) -> None:
        """Return once so many batches were read."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.given >= count, _LONGEST_S), self.given

    def settle(self, batch: NumberedBatch) -> None:
        self.settled.append(batch.number)

    def _next(self, timeout_s: float | None) -> NumberedBatch | None:
        if self.ended:
            return None
        if self._error is not None and self.given == self._last:
            raise self._error
        with self._changed:
            if not self._changed.wait_for(lambda: self.given < self._let_out, timeout_s):
                return None
            self.given += 1
            self._changed.notify_all()
            return NumberedBatch(self.given - 1, self._chunks)

    def _close(self) -> None:
        self.closed += 1
