"""Errors of a server that a subscription comes from, by their SQLSTATE.

Errors are recognised by their codes: texts have changed before, and that broke a client. The text is looked
at only where Materialize has one code for several errors. Source: Materialize ``src/adapter/src/error.rs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidegate.errors import (
    CredentialsExpired,
    FellBehind,
    HistoryLost,
    ObjectDropped,
    ResultTooLarge,
    StreamInterrupted,
    StreamPoisoned,
    SubscriptionCanceled,
    TidegateError,
)

_BY_CODE: Final[Mapping[str, type[TidegateError]]] = {
    "42704": ObjectDropped,
    "53200": FellBehind,
    "57014": SubscriptionCanceled,
    "57P01": StreamInterrupted,
    "57P02": StreamInterrupted,
    "57P03": StreamInterrupted,
}
_BY_CLASS: Final[Mapping[str, type[TidegateError]]] = {
    "08": StreamInterrupted,
    "28": CredentialsExpired,
}
#: Codes of several errors, with the text that tells which of them it is.
_BY_TEXT: Final[Sequence[tuple[str, str, type[TidegateError]]]] = (
    ("22000", "is not valid for all inputs", HistoryLost),
    ("22000", "could not find a valid timestamp", HistoryLost),
    ("XX000", "total result exceeds max size", ResultTooLarge),
    ("XX000", "was dropped", ObjectDropped),
)


def server_error(sqlstate: str, message: str) -> TidegateError:
    """Make the error that a server's SQLSTATE and message mean.

    An unknown SQLSTATE means ``StreamPoisoned``: an error that every further attempt would meet again.
    """
    told = (error for code, text, error in _BY_TEXT if sqlstate == code and text in message)
    kind = next(told, None) or _BY_CODE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2]) or StreamPoisoned
    return kind(message)
