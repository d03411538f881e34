"""The messages that a server holds for one reader, and the rule for a slow one.

If a reader is slow, tidegate stops reading its source, and drops nothing. Materialize ends a subscription if
more than 128 MiB of messages wait. Each message counts 1 KiB more than its size; the message that is being
sent does not count. In Materialize the rows of one step must fit into 1 GB. Source: Materialize
``src/adapter/src/active_compute_sink.rs``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tidegate.errors import FellBehind, ResultTooLarge
from tidegate.subscribe.outputs.dialect import Dialect, read_dialect

BACKLOG_BYTES: Final = 128 * 1024 * 1024
RESULT_BYTES: Final = 1_000_000_000
_MESSAGE_BYTES: Final = 1024


class ReaderBacklog:
    """The sizes of the messages that wait for one reader, the oldest first."""

    __slots__ = ("_backlog_bytes", "_dialect", "_result_bytes", "_sizes", "waiting_bytes")

    def __init__(
        self, dialect: Dialect | str, backlog_bytes: int = BACKLOG_BYTES, result_bytes: int = RESULT_BYTES
    ) -> None:
        self._dialect = read_dialect(dialect)
        self._backlog_bytes = backlog_bytes
        self._result_bytes = result_bytes
        self._sizes: deque[int] = deque()
        #: The bytes that wait, without the message that is being sent.
        self.waiting_bytes = 0

    @property
    def full(self) -> bool:
        """Whether the source should be paused until the reader has taken more."""
        return self.waiting_bytes > self._backlog_bytes

    def add(self, message_bytes: int) -> None:
        """Count a message.

        In Materialize's dialect raises ``ResultTooLarge`` for a message above ``result_bytes``, and
        ``FellBehind`` if more than ``backlog_bytes`` wait.
        """
        if self._dialect is Dialect.MATERIALIZE and message_bytes > self._result_bytes:
            raise ResultTooLarge(f"total result exceeds max size of {self._result_bytes} B")
        self._sizes.append(message_bytes + _MESSAGE_BYTES)
        if len(self._sizes) > 1:
            self.waiting_bytes += self._sizes[-1]
        if self._dialect is Dialect.MATERIALIZE and self.full:
            raise FellBehind(
                f"subscribe fell behind: {self.waiting_bytes} bytes wait for the reader, and "
                f"{self._backlog_bytes} are held; resume from the last token and read faster"
            )

    def sent(self) -> None:
        """Note that the reader took the oldest message; the next one is being sent."""
        self._sizes.popleft()
        if self._sizes:
            self.waiting_bytes -= self._sizes[0]
