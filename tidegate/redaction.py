"""Removes secrets from texts that leave the process (docs/security.md#secrets).

Code that makes a text never quotes a secret. This module looks once more, at the boundary: in lines of the
log, in what commands print, in reasons that are stored, and in answers over HTTP.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, quote_plus

_REDACTED: Final = "redacted"
#: Shorter texts stand in other words by chance, so a shorter secret is not looked for.
_SHORTEST: Final = 4
#: The same for a secret in base 64.
_SHORTEST_BASE64: Final = 8
#: A secret may have several lines, as a key in PEM. A line with so many characters is also found alone.
_SHORTEST_LINE: Final = 16
#: Names of secrets, as they stand in parts of addresses, in Kafka's settings and in answers of others. A name
#: may begin with more, as in ``ssl.key.password``. The token of a subscription is no secret.
_NAMES: Final = (
    r"[\w.-]{0,40}(?:pass(?:word|wd|phrase)|secret|(?:client|private|access|secret)[_.-]?key|"
    r"(?:access|refresh|auth|bearer|session|id)[_.-]?token)"
)
#: A name and its value. A backslash before a quote belongs to the text around, which may be JSON.
_PARAMETER: Final = re.compile(
    rf"\b({_NAMES}=(?:\\{{0,3}}['\"])?)((?:[^&'\"\s\\]|\\[^&'\"\s])+)", re.IGNORECASE
)
#: The same with the value in quotes, where it may have spaces.
_QUOTED: Final = re.compile(rf"\b({_NAMES}=)(['\"])((?:(?!\2)[^\\\n]|\\.)+)\2", re.IGNORECASE)
#: The same as members of JSON, of a ``repr``, and of JSON that a text of JSON quotes.
_MEMBERS: Final = tuple(
    re.compile(rf"(\b(?:{_NAMES}){name_quote}:\s{{0,9}}{quote})({value}+)", re.IGNORECASE | re.DOTALL)
    for name_quote, quote, value in (
        ('"', '"', r'(?:[^"\\]|\\.)'),
        ("'", "'", r"(?:[^'\\]|\\.)"),
        ("'", '"', r'(?:[^"\\]|\\.)'),
        (r'\\"', r'\\"', r'(?:[^"\\]|\\\\\\?.|\\[^"\\])'),
    )
)
_ESCAPE: Final = re.compile("%[0-9A-F]{2}")
_ADDRESS_BASE64: Final = str.maketrans("+/", "-_")
#: A run of characters in which an address may stand. No address goes beyond such a run.
_WORD: Final = re.compile(r"[^\s'\"]+")
#: What follows the ``://`` of an address: a host without a login, or (``_USER``) the user of a login.
_HOST: Final = re.compile(r"://(?:\[|[^/@:]*(?:/|(?::[0-9]{1,5})?(?:[,?#]|$)))")
_USER: Final = re.compile(r"://([^/@:]*)(:?)")
#: A reference to a secret, ``secret://NAME``, is no secret. In a login its signs are escaped.
_REFERENCES: Final = ("secret://", "secret%3A%2F%2F")


class _Secrets:
    """The texts that this process uses as secrets.

    The operator's secrets stay for ever. A secret that a feed names stays as long as somebody holds it. So
    there are as many as open clients need, not as many as all feeds ever had.

    Any thread may call it, and Python may delete a holder at any moment. So each change is one step of the
    interpreter, and makes the index of the earlier state invalid.
    """

    def __init__(self) -> None:
        self._kept: set[str] = set()
        self._held: dict[int, Set[str]] = {}  # by the ids of their holders
        self._state = object()
        self._index = _Index(object(), ())

    def keep(self, texts: Set[str]) -> None:
        if not texts <= self._kept:
            self._kept.update(texts)
            self._state = object()

    def hold(self, holder: int, texts: Set[str]) -> None:
        self._held[holder] = texts
        self._state = object()

    def let_go(self, holder: int) -> None:
        self._held.pop(holder, None)
        self._state = object()

    def all(self) -> Set[str]:
        return set(self._kept).union(*list(self._held.values()))

    def found_in(self, text: str) -> Sequence[str]:
        """Return the secrets that stand in a text, the longest first."""
        index, state = self._index, self._state
        if index.state is not state:
            self._index = index = _Index(state, self.all())
        return index.found_in(text)


class _Index:
    """Finds the texts of one ``state`` in others.

    A few texts are looked for one by one. If there are many, only those are looked for whose beginning stands
    in the other text. So the time for a line of the log does not grow with the number of secrets.
    """

    def __init__(self, state: object, texts: Iterable[str]) -> None:
        self.state = state
        self._texts = sorted(texts, key=len, reverse=True)
        self._by_beginning: defaultdict[str, list[str]] = defaultdict(list)
        for each in self._texts:
            self._by_beginning[each[:_SHORTEST]].append(each)

    def found_in(self, text: str) -> Sequence[str]:
        texts = self._texts
        if len(texts) > len(text):
            beginnings = {text[at : at + _SHORTEST] for at in range(len(text) - _SHORTEST + 1)}
            few = (self._by_beginning[begin] for begin in beginnings & self._by_beginning.keys())
            texts = sorted(chain.from_iterable(few), key=len, reverse=True)
        return [each for each in texts if each in text]


_secrets: Final = _Secrets()


class HeldSecrets:
    """Makes ``redacted`` find these secrets as ``remember_secret`` does, as long as this object exists."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _secrets
        self._secrets.hold(id(self), frozenset[str]().union(*map(_texts, secrets)))

    def __del__(self) -> None:
        self._secrets.let_go(id(self))


def remember_secret(secret: str) -> None:
    """Make ``redacted`` find this secret too, as long as the process lives.

    A secret of fewer than four characters is not looked for. The secret is found as it is, and as JSON and
    ``repr`` write it or its bytes. They write a quote, a backslash and the line breaks of a key in another
    way: ``pa"ss`` as ``pa\\"ss``. It is also found if two of them have written it, one after the other: a
    line of the log in JSON may quote an answer in JSON. It is found as an address has it, with ``%`` and two
    digits for a sign, and in base 64, as in a header ``Authorization``.
    """
    _secrets.keep(_texts(secret))


def _texts(secret: str) -> frozenset[str]:
    if len(secret) < _SHORTEST:
        return frozenset()
    once = _written(secret).union(_lines(secret))
    return frozenset(once.union(_escaped(secret), _in_base64(secret), *map(_written, once)))


def _lines(secret: str) -> set[str]:
    """Return the lines of a text that has several, such as a key in PEM, without the lines around the key."""
    lines = secret.split("\n") if "\n" in secret else []
    return {each for line in lines if len(each := line.strip()) >= _SHORTEST_LINE and "-----" not in each}


def _escaped(secret: str) -> set[str]:
    """Return the text as parts of addresses have it: the digits of a sign may be small or capital letters."""
    found = {quote(secret, errors="surrogatepass"), quote(secret, safe="", errors="surrogatepass")}
    found.add(quote_plus(secret, errors="surrogatepass"))
    return found | {_ESCAPE.sub(lambda sign: sign[0].lower(), each) for each in found}


def _in_base64(secret: str) -> Iterator[str]:
    """Yield the base 64 of this text after 0, 1 or 2 other bytes, without the characters at its edges.

    A header ``Authorization`` has a user's name before the password. The name decides which of the three
    stands there, and the characters at the edges. Both alphabets of base 64 count, also that of addresses.
    """
    text = secret.encode(errors="surrogatepass")
    for before in range(3):
        written = b64encode(bytes(before) + text)
        first = -(-8 * before // 6)  # bits of a byte that are in characters of six
        found = written[first : 8 * (before + len(text)) // 6].decode()
        if len(found) >= _SHORTEST_BASE64:
            yield found
            yield found.translate(_ADDRESS_BASE64)


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
    for secret in _secrets.found_in(text):
        text = text.replace(secret, _REDACTED)
    if "=" in text:
        text = _PARAMETER.sub(_shown, _QUOTED.sub(_shown_quoted, text))
    if '":' in text or "':" in text:
        for each in _MEMBERS:
            text = each.sub(_shown_member, text)
    return _WORD.sub(_without_login, text) if "://" in text and "@" in text else text


def redacted_values(value: Any) -> Any:
    """Return a value that becomes JSON, with each of its texts redacted, also the names of members.

    Texts are redacted before they become JSON. In JSON a quote has a backslash before it: a secret that ends
    there would take the backslash along, and break the JSON. A value that JSON cannot hold becomes its
    ``repr``.
    """
    match value:
        case str():
            return redacted(value)
        case None | bool() | int() | float():
            return value
        case dict():
            return {redacted_values(name): redacted_values(each) for name, each in value.items()}
        case list() | tuple():
            return [redacted_values(each) for each in value]
    return redacted(repr(value))


def redacted_event(_: object, __: str, event: Any) -> Any:
    """Return a line of the log in its parts, before they become JSON: a processor of structlog."""
    return redacted_values(event)


def redacted_line(_: object, __: str, line: Any) -> Any:
    """Return a line of the log as it leaves the process: a processor of structlog after the renderer."""
    return redacted(line)


def _without_login(match: re.Match[str]) -> str:
    """Return a word without the login of an address in it.

    A login ends at the word's last ``@``, since a password may have others, and slashes that are not
    escaped.
    A user without a password is a secret: registries accept tokens there.
    """
    word = match[0]
    end = word.rfind("@")
    at = 0
    while (first := _login(word, at, end)) >= 0:
        if not word.startswith(_REFERENCES, first):
            return f"{word[:first]}{_REDACTED}{word[end:]}"
        at = word.find("@", first)  # the name in a reference has none
    return word


def _login(word: str, at: int, end: int) -> int:
    """Return where the secret of the first login after ``at`` begins; -1 if there is none before ``end``.

    The secret is the password, or the user if there is no password.
    """
    begin = word.find("://", at, max(end, 0))
    while begin >= 0 and _HOST.match(word, begin):
        begin = word.find("://", begin + 3, end)
    user = _USER.match(word, begin, end) if begin >= 0 else None
    if user is None:
        return -1
    return user.end() if user[2] else user.start(1)


def _shown(match: re.Match[str]) -> str:
    return match[0] if match[2].startswith((*_REFERENCES, _REDACTED)) else f"{match[1]}{_REDACTED}"


def _shown_quoted(match: re.Match[str]) -> str:
    name, quote_sign, value = match.groups()
    return match[0] if value.startswith(_REFERENCES) else f"{name}{quote_sign}{_REDACTED}{quote_sign}"


def _shown_member(match: re.Match[str]) -> str:
    return match[0] if match[2].startswith(_REFERENCES) else f"{match[1]}{_REDACTED}"
