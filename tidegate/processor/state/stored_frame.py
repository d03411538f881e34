"""The frame of every stored value: a version byte, then a protobuf message."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError

from tidegate.errors import ForeignRecord, StateError, StateMismatch

#: The version of all stored values, except those that have a form of a later version.
WRITTEN_VERSION: Final = 2
#: The version of rows with what a range tells others. An earlier worker would read such a row as a range, so
#: it must refuse the version.
TOLD_VERSION: Final = 3
#: The newest version that this worker reads.
STATE_VERSION: Final = TOLD_VERSION
#: The first bytes of a topic's record in a form that only a newer version of tidegate reads. The number of
#: the form, one byte, follows them. A record with another first byte is in a form that this version knows, or
#: tidegate did not write it.
NEWER_RECORD: Final = b"\x00tidegate"
_OLDEST_VERSION: Final = 1  # it does not store what ranges wait for: in its states no range waits


class Message(Protocol):
    """The methods of a generated message that are used here."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802  # protobuf's name

    @classmethod
    def FromString(cls: type[MessageT], s: bytes) -> MessageT: ...  # noqa: N802


MessageT = TypeVar("MessageT", bound=Message)


def is_readable(stored: bytes) -> bool:
    """Whether a stored value is of a version that this worker reads."""
    return bool(stored) and _OLDEST_VERSION <= stored[0] <= STATE_VERSION


def require_readable(stored: bytes, what: str) -> None:
    """Raise ``StateError`` for a stored value of a newer version. ``what`` is its name in errors."""
    if not is_readable(stored):
        version = stored[0] if stored else "none"
        raise StateError(
            f"{what} is stored in version {version}, but this worker reads version {STATE_VERSION}. "
            "Run the newer worker, or remove the application's state to rebuild it from the log"
        )


def pack(message: Message, version: int = WRITTEN_VERSION) -> bytes:
    """Return the stored form of a message."""
    return bytes((version,)) + message.SerializeToString()


def unpack(kind: type[MessageT], stored: bytes, what: str) -> MessageT:
    """Return the message of a stored value. ``what`` is its name in errors.

    Raises ``StateError`` for a value of a newer version, and ``StateMismatch`` for one that does not parse.
    """
    require_readable(stored, what)
    try:
        return kind.FromString(stored[1:])
    except DecodeError as error:
        raise StateMismatch(f"{what} is damaged: {error}. Wipe the data directory to restore it") from None


def unpack_record(kind: type[MessageT], value: bytes, what: str) -> MessageT:
    """Return the message of a topic's record, which has the same frame. ``what`` is its name in errors.

    Raises ``StateError`` for a record of a newer version (`NEWER_RECORD`), and ``ForeignRecord`` for one that
    tidegate did not write. Anybody who may write to the topic may have written it, since no digest covers it.
    """
    if value.startswith(NEWER_RECORD):
        raise StateError(
            f"{what} is in a form of a newer tidegate ({value[len(NEWER_RECORD) :][:1].hex() or 'none'}): "
            "upgrade this process; nothing was changed"
        )
    if not is_readable(value):
        raise ForeignRecord(f"{what} begins with {value[:1].hex() or 'nothing'}: tidegate did not write it")
    try:
        return kind.FromString(value[1:])
    except DecodeError as error:
        raise ForeignRecord(f"{what} cannot be parsed ({error}): tidegate did not write it") from None
