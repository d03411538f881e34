"""``cursor``: where a feed starts in the past, in the forms that AS OF SYSTEM TIME has.

| form | example |
|---|---|
| HLC decimal | ``1536242855577149065.0000000000`` |
| nanoseconds since 1970 | ``1536242855577149065`` |
| timestamp, of SQL or RFC 3339; UTC if it has no offset | ``2018-09-06 14:07:35.577149+00:00`` |
| time before now | ``-1h``, ``-90s`` |

Source: CockroachDB ``pkg/sql/sem/asof`` (``DatumToHLC``); error texts begin as CockroachDB's do. Of SQL's
intervals only those that are durations too can be read, and of its dates only those in ISO's form.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.quoted_value import quoted
from tidegate.changefeed.text.datum_text import timestamptz_text
from tidegate.errors import StatementError
from tidegate.hlc import MAX, NANOS_PER_SECOND, Timestamp

_LOGICAL_DIGITS: Final = 10
_NANOS_DIGITS: Final = 9
_SECONDS_PER_MINUTE: Final = 60
#: No form needs as many characters, and Python makes no number of more than 4,300 digits.
_MOST_CHARACTERS: Final = 100
_FORMS: Final = (
    "write an HLC decimal (1536242855577149065.0000000000), nanoseconds since 1970, a timestamp "
    "(2018-09-06 14:07:35.577149+00:00) or a time before now (-1h)"
)
_DECIMAL: Final = re.compile(r"(?P<wall>\d+)(?:\.(?P<logical>\d*))?", re.ASCII)
_MOMENT: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:(?:T|\s+)(?P<clock>\d\d:\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)


def read_cursor(text: str, now_ns: int) -> Timestamp:
    """Return the timestamp that a cursor's text means. A time before now counts back from ``now_ns``.

    Raises ``StatementError`` for another text, for a time before 1970, and for a time after now.
    """
    if len(text.strip()) > _MOST_CHARACTERS:
        raise StatementError(
            f"cursor: a value of {len(text.strip())} characters is neither timestamp, decimal, "
            f"nor interval; {_FORMS}"
        )
    cursor = _timestamp(text.strip(), now_ns)
    if cursor == Timestamp(0):
        raise StatementError(f"cursor={quoted(text)}: zero timestamp is invalid; {_FORMS}")
    if cursor.wall < 0:
        raise StatementError(
            f"cursor={quoted(text)}: timestamp before 1970-01-01T00:00:00Z is invalid; {_FORMS}"
        )
    if cursor > Timestamp(now_ns):
        raise StatementError(
            f"cursor={quoted(text)}: cannot specify timestamp in the future: {_both(cursor)} is after the "
            f"present, {_both(Timestamp(now_ns))} by this machine's clock; give an earlier cursor, or none "
            "for a feed from the present"
        )
    return cursor


def _timestamp(text: str, now_ns: int) -> Timestamp:
    if match := _DECIMAL.fullmatch(text):
        return _decimal(text, int(match["wall"]), match["logical"] or "")
    if match := _MOMENT.fullmatch(text):
        return Timestamp(_moment(text, match))
    try:
        if text.startswith("-"):
            return Timestamp(now_ns + parse_duration(text))
    except ValueError:
        pass
    raise StatementError(
        f"cursor={quoted(text)}: value is neither timestamp, decimal, nor interval; {_FORMS}"
    )


def _decimal(text: str, wall: int, logical: str) -> Timestamp:
    """Read an HLC decimal. Its fraction is the logical part, whose last zeros may be left out."""
    if len(logical) > _LOGICAL_DIGITS:
        raise StatementError(
            f"cursor={quoted(text)}: logical part has too many digits: there are {_LOGICAL_DIGITS}"
        )
    timestamp = Timestamp(wall, int(logical.ljust(_LOGICAL_DIGITS, "0")))
    if timestamp.wall > MAX.wall or timestamp.logical > MAX.logical:
        raise StatementError(f"cursor={quoted(text)}: HLC timestamp out of range: the highest is {MAX}")
    return timestamp


def _moment(text: str, match: re.Match[str]) -> int:
    """Return nanoseconds since 1970.

    ``datetime`` counts only the whole seconds, since its microseconds are too coarse.
    """
    try:
        moment = datetime.fromisoformat(
            f"{match['date']} {match['clock'] or '00:00'}:{match['second'] or '00'}"
        )
    except ValueError as error:
        raise StatementError(f"cursor={quoted(text)}: no such time: {error}") from None
    seconds = int((moment.replace(tzinfo=UTC) - _EPOCH) / timedelta(seconds=1)) - _east(match["zone"] or "Z")
    return seconds * NANOS_PER_SECOND + int((match["fraction"] or "0").ljust(_NANOS_DIGITS, "0"))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _east(zone: str) -> int:
    """Return the seconds that a zone is ahead of UTC."""
    if zone[0] not in "+-":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or "0")
    seconds = (hours * _SECONDS_PER_MINUTE + minutes) * _SECONDS_PER_MINUTE
    return -seconds if zone[0] == "-" else seconds


def _both(timestamp: Timestamp) -> str:
    """Return a timestamp as the log has it, and as people read it."""
    return f"{timestamp.decimal()} ({timestamptz_text(timestamp.wall)})"
