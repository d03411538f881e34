"""Parameters after the ``?`` of a sink's or a registry's URI."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from tidegate.errors import StatementError

REDACTED: Final = "redacted"
SECRET_PARAMETERS: Final = frozenset(
    ("sasl_password", "client_key", "sasl_client_secret", "api_secret", "shared_access_key")
)
#: The most unknown names that are compared with known ones. A comparison costs as much as a kilobyte of URI.
COMPARED_NAMES: Final = 20
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def unknown_parameters(fault: str, unknown: Sequence[str], known: Sequence[str]) -> str:
    """Return a sentence about unknown names that shows none of them, since each may be a piece of a secret.

    Example: when an ``&`` in a password is not escaped, the text after it becomes a name.
    """
    compared = unknown[:COMPARED_NAMES]
    close = sorted({match for name in compared for match in get_close_matches(name[:64], known, n=1)})
    hint = f"did you mean {', '.join(close)}? " if close else ""
    return f"{fault}: {len(unknown)} of them. {hint}Known: {', '.join(known)}"


def bool_parameter(given: Mapping[str, str], name: str) -> bool:
    """Return the truth value of a parameter, false if it is not given.

    Raises ``StatementError`` for a text that is no truth value.
    """
    value = given.get(name, "false")
    if value not in _BOOLS:
        raise StatementError(f"param {name} must be a bool: true or false")
    return _BOOLS[value]


def pem_parameter(given: Mapping[str, str], name: str) -> bytes:
    """Return the PEM text of a parameter, which has it in base 64; empty if the parameter is not given.

    Raises ``StatementError`` for a text that is not base 64 of PEM.
    """
    # An unescaped + in a query means a space, but people paste base 64 as it is.
    text = given.get(name, "").replace(" ", "+")
    try:
        pem = base64.b64decode(text, validate=True)
    except ValueError:  # `binascii.Error` is a ``ValueError``; a letter that is not ASCII gives another one
        raise StatementError(f"param {name} must be base 64 encoded") from None
    if pem and not (pem.isascii() and b"-----BEGIN " in pem):
        raise StatementError(f"param {name} must be PEM text (-----BEGIN ...) in base 64")
    return pem
