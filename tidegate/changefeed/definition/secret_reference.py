"""``secret://NAME``: a secret that a feed's definition names and does not hold.

A definition is stored where others read it. The process that connects looks the name up, at the moment of
use, in its operator's store (``tidegate.access.secret_store``).
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.errors import StatementError

SCHEME: Final = "secret://"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
#: Headers that are known by name to carry secrets.
_SECRET_HEADER: Final = re.compile(
    r"auth|cookie|credential|passw|secret|signature|token|api[-_]?key", re.IGNORECASE
)


def is_reference(text: str) -> bool:
    """Return whether the text names a secret instead of being one."""
    return text.startswith(SCHEME)


def secret_name(reference: str) -> str:
    """Return the name in a reference.

    Raises ``StatementError``, without repeating the text, for a bad name.
    """
    name = reference.removeprefix(SCHEME)
    if _NAME.fullmatch(name) is None:
        raise StatementError(
            "the name behind secret:// must be 1 to 64 small letters, digits, '.', '_' and '-', and begin "
            "with a letter or a digit"
        )
    return name


def is_secret_header(name: str) -> bool:
    """Return whether the header's name says that it carries a secret."""
    return _SECRET_HEADER.search(name) is not None
