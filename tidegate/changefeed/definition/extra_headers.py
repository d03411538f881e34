"""``extra_headers``: Kafka headers that are the same on every row's record of a feed.

They are given as a JSON object. The header of a string member is the string's contents; that of any other
value is its JSON text. A member that is null gives no header. For example, ``{"team": "blue", "n": 1, "x":
null}`` gives ``team: blue`` and ``n: 1``. Markers have no headers. When ``headers_json_column_name`` gives a
row a header of the same name, the record has both headers, and the feed's header is the first: Kafka's
headers are a list, in which names may repeat.

Source: CockroachDB ``pkg/ccl/changefeedccl/changefeedbase/options.go`` (``GetKafkaSinkOptions``) and
``sink_kafka_v2.go`` (``kafkaBuffer.Append``, ``FlushResolvedPayload``).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.secret_reference import is_reference, is_secret_header, secret_name
from tidegate.changefeed.definition.uri_parameters import REDACTED
from tidegate.changefeed.text.json_text import json_value, utf8
from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.changefeed.text.unprintable import control_character
from tidegate.errors import StatementError

_OPTION: Final = "extra_headers"
#: The most headers, and the most bytes of their names and values together: every row carries them.
HEADERS_MAX: Final = 100
HEADER_BYTES_MAX: Final = 16_384
#: The names of tidegate's own headers begin with this.
_OWN_PREFIX: Final = "tidegate-"

#: Headers by name, in the order of their names.
_Named: TypeAlias = dict[str, str]


def read_extra_headers(text: str) -> str:
    """Return the option's value in one standard form: an object of texts, sorted by name; empty for no
    headers.

    Raises ``StatementError`` for a value that is not allowed. The error has no position, and does not quote
    the values of headers, which may be secrets.
    """
    given = _parse(text)
    named = {_new_name(name): _text(value) for name, value in given.items() if value is not None}
    stored = _standard_form(named)
    if fault := headers_fault(stored):
        raise StatementError(fault)
    return stored


def headers_fault(stored: str) -> str:
    """Return why a value in the standard form is above the bounds. Return an empty text if it is not.

    A stored value may be above them: other programs write to the jobs topic, and earlier versions had no
    bounds.
    """
    named = _named(stored)
    size = sum(len(utf8(name)) + len(utf8(text)) for name, text in named.items())
    if len(named) <= HEADERS_MAX and size <= HEADER_BYTES_MAX:
        return ""
    return (
        f"{_OPTION} has {len(named)} headers of {size} bytes together, which every row would carry: "
        f"{HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes are the most"
    )


def constant_headers(stored: str) -> list[tuple[str, bytes]]:
    """Return the headers of a value in the standard form."""
    return [(name, text.encode()) for name, text in _named(stored).items()]


def redacted_headers(stored: str) -> str:
    """Return the standard form with hidden values, since headers may carry API keys. References are shown."""
    named = _named(stored).items()
    return _standard_form({name: text if is_reference(text) else REDACTED for name, text in named})


def literal_secrets(stored: str) -> list[str]:
    """Return the headers whose names say that they carry a secret, and whose value is no reference."""
    named = _named(stored).items()
    return [name for name, text in named if is_secret_header(name) and not is_reference(text)]


def header_references(stored: str) -> list[tuple[str, str]]:
    """Return the headers whose values are references, as pairs of name and reference."""
    return [(name, text) for name, text in _named(stored).items() if is_reference(text)]


def standard_headers(stored: str) -> str:
    """Return a stored value if it is an object of texts that Kafka takes, with references that can be read.

    Raises ``ValueError``, without the values, for any other text.
    """
    named = _named(stored)
    if not isinstance(named, dict) or not all(isinstance(text, str) for text in named.values()):
        raise ValueError(f"{_OPTION} is no object of texts")
    for name, text in named.items():
        try:
            _checked_name(name)
            if is_reference(text):
                secret_name(text)
        except StatementError as error:
            raise ValueError(str(error)) from None
        if not is_utf8(name) or not is_utf8(text):
            raise ValueError(f"{_OPTION} has half a surrogate, which UTF-8 cannot express")
    return stored


def _parse(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, ArithmeticError, RecursionError):
        raise StatementError(
            f'{_OPTION} is not JSON: write an object of header names and texts, as {{"team": "blue"}}'
        ) from None
    if not isinstance(value, dict):
        raise StatementError(
            f'{_OPTION} is JSON and no object: write header names and texts, as {{"team": "blue"}}'
        )
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _new_name(name: str) -> str:
    """Return the name of a header in a new statement, as records carry it.

    Raises ``StatementError`` also for a name with a control character. Only new names are checked for it:
    names that earlier versions stored may have one.
    """
    checked = _checked_name(name)
    if control := control_character(name):
        raise StatementError(
            f"{_OPTION} has a header whose name has the control character {control}, which no name may have: "
            "it would steer the terminals of those who look at the feed"
        )
    return checked


def _checked_name(name: str) -> str:
    if not name or "\0" in name:
        raise StatementError(f"{_OPTION} has a header whose name is empty, or holds a NUL: name it otherwise")
    if name.startswith(_OWN_PREFIX):
        raise StatementError(
            f"{_OPTION} cannot set {_valid(name)}: names that begin with {_OWN_PREFIX} are for tidegate's own"
        )
    return _valid(name)


def _text(value: Any) -> str:
    if isinstance(value, str) and is_reference(value):
        secret_name(value)
    return _valid(value if isinstance(value, str) else json_value(value))


def _valid(text: str) -> str:
    """Return the text with half surrogates, which UTF-8 cannot express, in the form in which JSON prints
    them.
    """
    return utf8(text).decode()


def _standard_form(named: _Named) -> str:
    ordered = {name: named[name] for name in sorted(named)}
    return json.dumps(ordered, ensure_ascii=False) if ordered else ""


def _named(stored: str) -> _Named:
    named: _Named = json.loads(stored) if stored else {}
    return named
