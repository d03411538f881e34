"""The stored form of all records on the jobs, control and acknowledgement topics: JSON with a version.

The version is that of the format, the same for all kinds of records. A reader accepts its own version and
older ones, and refuses newer ones, because a field that it does not know may change what other fields mean.
A record is one of a newer version if it is a JSON object in UTF-8 whose ``v`` is a whole number above ours,
up to 1,000, and whose ``kind`` is a word: every version writes both. Anything else that cannot be read is a
foreign record, and is skipped (docs/security.md#foreign-records).

* Version 2 has more options in a feed's definition, which an older worker would ignore. A definition of
  version 1 has none of them, and is read with their defaults.
* Version 3 has starts in the past, initial scans, feeds that have succeeded, and sinks on other clusters than
  the workers' own. An older worker would ignore starts in the past and initial scans.
* Version 4 has feeds that another engine runs.
* Version 5 has feeds that leave out the values of rows that are too large.
* Version 6 has secrets by name. Only definitions have this version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from tidegate.changefeed.definition.stored_fields import text, whole
from tidegate.errors import ForeignRecord, StateError

STORED_VERSION: Final = 6
#: The version of records that an older worker can read. Only definitions that name secrets are newer.
_USUAL_VERSION: Final = 5
#: The most levels of nested objects and lists in a record; the record itself is the first level. tidegate's
#: own records have five.
DEPTH_MAX: Final = 64
#: A higher number is no version: ten versions a year reach it after a hundred years.
_NEWEST_VERSION: Final = 1_000
_KIND: Final = re.compile(r"[a-z_]{1,32}")

#: The errors that a reader may raise for JSON of an unexpected form.
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_SURROGATE_ESCAPES: Final = (b"\\ud", b"\\uD")
_SHOWN: Final = 200  # characters of what somebody else may have written

_T = TypeVar("_T")


def dump(kind: str, body: Mapping[str, Any], *, names_secrets: bool = False) -> bytes:
    """Return the bytes of one record. ``body`` must not have members named ``v`` or ``kind``.

    ``names_secrets`` is for a definition with names of secrets. An older worker would use the names as if
    they were the secrets.
    """
    record = {"v": STORED_VERSION if names_secrets else _USUAL_VERSION, "kind": kind, **body}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def load(data: bytes, readers: Mapping[str, Callable[[dict[str, Any]], _T]], what: str) -> _T:
    """Read one record with the reader for its kind; ``what`` names the record in errors.

    Raises ``StateError`` for a record of a newer version. Raises ``ForeignRecord`` for an unknown kind, and
    for bytes of any sort that the reader cannot accept.
    """
    try:
        record = _parsed(data)
    except _UNREADABLE as error:
        raise _foreign(what, error) from None
    if record["v"] > STORED_VERSION:
        raise StateError(
            f"{what} was written by a newer tidegate (format {record['v']}, this one reads up to "
            f"{STORED_VERSION}): upgrade this process; nothing was changed"
        )
    try:
        return readers[record["kind"]](record)
    except _UNREADABLE as error:
        raise _foreign(what, error) from None


def is_newer(data: bytes) -> bool:
    """Return whether the bytes are a record of a newer version."""
    try:
        return bool(_parsed(data)["v"] > STORED_VERSION)
    except _UNREADABLE:
        return False


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the record, which has a version and a kind."""
    record = json.loads(data.decode())
    _require_shallow(record)
    _require_text(data, record)
    if not isinstance(record, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - one error for all wrong bytes
    whole(record, "v", 1, _NEWEST_VERSION)
    if _KIND.fullmatch(text(record, "kind")) is None:
        raise ValueError("kind is no word")
    return record


def _require_shallow(record: object) -> None:
    """Raise ``ValueError`` for containers that are nested too deep.

    JSON that is too deep for Python's stack was refused before. It is always deeper than this bound.
    """
    level = [record]
    for _ in range(DEPTH_MAX):
        inner = (each for container in level for each in _members(container))
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return
    raise ValueError(f"more than {DEPTH_MAX} containers in containers")


def _members(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _require_text(data: bytes, record: object) -> None:
    """Raise ``ValueError`` for strings with half of a surrogate pair, which UTF-8 cannot express.

    JSON can write such a half as an escape, and such a string could not be stored again. tidegate writes no
    such escapes.
    """
    if any(escape in data for escape in _SURROGATE_ESCAPES):
        json.dumps(record, ensure_ascii=False).encode()


def _foreign(what: str, error: Exception) -> ForeignRecord:
    return ForeignRecord(f"{what[:_SHOWN]} cannot be read ({_brief(error)}): tidegate did not write it")


def _brief(error: Exception) -> str:
    """Return the error with few characters of what it quotes, and without half surrogates."""
    if isinstance(error, UnicodeEncodeError | UnicodeDecodeError):
        return f"{type(error).__name__}: {error.reason}"
    return repr(error)[:_SHOWN].encode(errors="backslashreplace").decode()
