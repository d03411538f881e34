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
#: What an address may stand in: nothing else of a text can be of it.
_WORD: Final = re.compile(r"[^\s'\"]+")
#: What stands behind the ``://`` of an address: a host, which is no login, or the user of one.
_HOST: Final = re.compile(r"://(?:\[|[^/@:]*(?:/|(?::[0-9]{1,5})?(?:[,?#]|$)))")
_USER: Final = re.compile(r"://([^/@:]*)(:?)")
#: A reference to a secret is none (``secret://NAME``), in a login with its signs escaped.
_REFERENCES: Final = ("secret://", "secret%3A%2F%2F")
#: What this process has used as a secret, as it is and as JSON and Python write it.
_used: Final[set[str]] = set()


def remember_secret(secret: str) -> None:
    """Have ``redacted`` find this text too: as it is, and as JSON and ``repr`` write it, its bytes too.

    They write a quote, a backslash and the line breaks of a key in another way: ``pa"ss`` as ``pa\\"ss``. It
    is found twice written as well: a line of the log in JSON may quote an answer in JSON.
    """
    if len(secret) >= _SHORTEST:
        once = _written(secret)
        _used.update(once.union(*map(_written, once)))


def _written(text: str) -> set[str]:
    """Return the text as it is, and as JSON, ``repr`` and ``ascii`` write it, without their quotes.

    ``repr`` writes its bytes in another way: ``b'gr\\xc3\\xbcn'``.
    """
    return {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        ascii(text)[1:-1],
        repr(text.encode(errors="surrogatepass"))[2:-1],
    }


def redacted(text: str) -> str:
    """Return the text without what this process has used as a secret, and without passwords of URIs."""
    for secret in sorted(_used, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, _REDACTED)
    if "=" in text:
        text = _PARAMETER.sub(_shown, text)
    return _WORD.sub(_without_login, text) if "://" in text and "@" in text else text


def _without_login(match: re.Match[str]) -> str:
    """Return a word without the login of an address in it.

    A login ends at the word's last ``@``, since a password may have others, and a slash that nobody escaped.
    A user without a password is a secret: registries accept tokens there.
    """
    word = match[0]
    end = word.rfind("@")
    begin = word.find("://", 0, max(end, 0))
    while begin >= 0 and _HOST.match(word, begin):
        begin = word.find("://", begin + 3, end)
    user = _USER.match(word, begin, end) if begin >= 0 else None
    if user is None:
        return word
    first = user.end() if user[2] else user.start(1)
    return word if word.startswith(_REFERENCES, first) else f"{word[:first]}{_REDACTED}{word[end:]}"


def _shown(match: re.Match[str]) -> str:
    return match[0] if match[2].startswith(_REFERENCES) else f"{match[1]}={_REDACTED}"
