"""Texts that leave the process, once more without secrets (docs/security.md#secrets).

Nothing that makes a text quotes a secret. This is the second lock, at the boundary: lines of the log, what
commands print, reasons that are stored, answers over HTTP.
"""

from __future__ import annotations

import json
import re
from typing import Final

_REDACTED: Final = "redacted"
#: Shorter ones stand in other words by chance; such a secret is none.
_SHORTEST: Final = 4
_PARAMETER: Final = re.compile(
    r"\b(sasl_password|client_key|sasl_client_secret|api_secret|shared_access_key|password)=([^&'\"\s]+)",
    re.IGNORECASE,
)
#: A login ends at the last ``@``: a password may have others.
_LOGIN: Final = re.compile(r"(://[^\s/@:'\"]*:)[^\s/'\"]+(?=@)")
#: What this process has used as a secret, as it is and as JSON and Python write it.
_used: Final[set[str]] = set()


def remember_secret(secret: str) -> None:
    """Have ``redacted`` find this text too: as it is, and as JSON and ``repr`` write it.

    They write a quote, a backslash and the line breaks of a key in another way: ``pa"ss`` as ``pa\\"ss``. It
    is found twice written as well: a line of the log in JSON may quote an answer in JSON.
    """
    if len(secret) >= _SHORTEST:
        once = _written(secret)
        _used.update(once.union(*map(_written, once)))


def _written(text: str) -> set[str]:
    """Return the text as it is, and as JSON and ``repr`` write it, without their quotes."""
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}


def redacted(text: str) -> str:
    """Return the text without what this process has used as a secret, and without passwords of URIs."""
    for secret in sorted(_used, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, _REDACTED)
    if "=" in text:
        text = _PARAMETER.sub(_shown, text)
    return _LOGIN.sub(rf"\g<1>{_REDACTED}", text) if "://" in text else text


def _shown(match: re.Match[str]) -> str:
    return match[0] if match[2].startswith("secret://") else f"{match[1]}={_REDACTED}"
