"""The frame of every stored value: a version byte, then a protobuf message."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError

from tidegate.errors import StateError, StateMismatch

#: What is written, but for forms that are newer.
WRITTEN_VERSION: Final = 2
#: What ranges tell others in rows of their own. A worker of before would take such a row for a range.
TOLD_VERSION: Final = 3
#: The newest version that this worker reads.
STATE_VERSION: Final = TOLD_VERSION
_OLDEST_VERSION: Final = 1  # it lacks what ranges wait for, so it has none that waits


class Message(Protocol):
    """What is used of a generated message."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802  # protobuf's name

    @classmethod
    def FromString(cls: type[MessageT], s: bytes) -> MessageT: ...  # noqa: N802


MessageT = TypeVar("MessageT", bound=Message)


def is_readable(stored: bytes) -> bool:
    """Whether a stored value is of a version that this worker reads."""
    return bool(stored) and _OLDEST_VERSION <= stored[0] <= STATE_VERSION


def pack(message: Message, version: int = WRITTEN_VERSION) -> bytes:
    """The stored form of a message."""
    return bytes((version,)) + message.SerializeToString()


def unpack(kind: type[MessageT], stored: bytes, what: str) -> MessageT:
    """The message of a stored value.

    Raises ``StateError``, naming ``what``, for a value of a newer version, ``StateMismatch`` for one that
    does not parse.
    """
    if not is_readable(stored):
        version = stored[0] if stored else "none"
        raise StateError(
            f"{what} is stored in version {version}, but this worker reads version {STATE_VERSION}. "
            "Run the newer worker, or remove the application's state to rebuild it from the log"
        )
    try:
        return kind.FromString(stored[1:])
    except DecodeError as error:
        raise StateMismatch(f"{what} is damaged: {error}. Wipe the data directory to restore it") from None
