"""Checkpoints: each keeps a consumer's token under a name. One process at a time holds a checkpoint.

The steps, and what a crash between two of them leaves, are in docs/subscribe.md#checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

from tidegate.errors import Fenced, SettingsError

#: The wall clock, in milliseconds since 1970.
Clock: TypeAlias = Callable[[], int]


class HeldCheckpoint(Protocol):
    """A checkpoint that this process has acquired. Its attributes stay the same when a token is committed."""

    @property
    def name(self) -> str:
        """The name under which it was acquired."""

    @property
    def epoch(self) -> int:
        """The epoch: a number that is higher than that of every earlier holder."""

    @property
    def token(self) -> str | None:
        """The token that was stored when it was acquired; ``None`` if none was stored."""

    def commit(self, token: str) -> None:
        """Store a token. Raises ``Fenced`` if another process has acquired the checkpoint since: then the
        stored token does not change, and this process has to end its subscription."""

    def require_held(self) -> None:
        """Raise ``Fenced`` if another process has acquired the checkpoint since; the token stays as it is.

        Call it before each chunk of a snapshot is written, since a chunk has no token to commit. Raises
        otherwise what ``commit`` raises.
        """

    def close(self) -> None:
        """Close its own connections. The checkpoint and its epoch stay as they are."""


class CheckpointStore(Protocol):
    """A place that keeps checkpoints. A second process that acquires a name fences the first."""

    def acquire(self, name: str) -> HeldCheckpoint:
        """Raise the epoch of the name, and return its token. Every earlier holder is fenced from now on.

        Raises ``HistoryLost`` for a stored checkpoint that is damaged: its token is lost, so the consumer can
        only begin again with a snapshot. Raises ``StateError`` if the store cannot be used.
        """


def wall_clock_ms() -> int:
    """Return the present in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def next_epoch(before: int, now_ms: int) -> int:
    """Return the epoch after ``before``: the present, or ``before`` + 1 if that is higher.

    So a checkpoint that was deleted and made anew gets no epoch that a process still holds.
    """
    return max(before + 1, now_ms)


def require_name(name: str) -> None:
    """Raise ``SettingsError`` for an empty name."""
    if not name:
        raise SettingsError("A checkpoint needs a name: the one under which this consumer goes on later")


def fenced(name: str, epoch: int, why: str) -> Fenced:
    """Make the error for a process from which another one has taken the name."""
    return Fenced(
        f"The checkpoint {name} is not held any more by this process, which acquired it with the epoch "
        f"{epoch}: {why}. Nothing was stored. End this process, or acquire the checkpoint again and go "
        "on from its token"
    )
