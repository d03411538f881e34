"""The keys with which clients cancel commands.

Whoever has the key of a connection can end the command of that connection, and can do nothing else.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Final

_MOST_PROCESS_ID: Final = 2**31 - 1


class CancelKeys:
    """The keys of all connections that have logged in."""

    __slots__ = ("_by_process",)

    def __init__(self) -> None:
        self._by_process: dict[int, tuple[bytes, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._by_process)

    def add(self, cancel: Callable[[], None], secret_bytes: int) -> tuple[int, bytes]:
        """Return a connection's new key: its number and its secret. ``cancel`` ends the connection's
        command."""
        process_id = 0
        while process_id == 0 or process_id in self._by_process:
            process_id = secrets.randbelow(_MOST_PROCESS_ID)
        secret = secrets.token_bytes(secret_bytes)
        self._by_process[process_id] = (secret, cancel)
        return process_id, secret

    def remove(self, process_id: int) -> None:
        """Forget a connection's key."""
        self._by_process.pop(process_id, None)

    def cancel(self, process_id: int, secret: bytes) -> bool:
        """End the command of the connection that has this key. Return whether a connection has it.

        The client that asks is not told.
        """
        known = self._by_process.get(process_id)
        if known is None or not hmac.compare_digest(known[0], secret):
            return False
        known[1]()
        return True
