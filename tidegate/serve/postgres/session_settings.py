"""The settings of a session, for SET and SHOW.

Clients set what servers of PostgreSQL have. Such a setting is kept for SHOW, and changes nothing. One setting
is tidegate's own: ``tidegate.dialect`` says which dialect the subscriptions of the session follow.
"""

from __future__ import annotations

from importlib import metadata
from typing import Final

from tidegate.errors import RequestRefused
from tidegate.subscribe.outputs.dialect import Dialect

DIALECT: Final = "tidegate.dialect"
_ENCODING: Final = "client_encoding"
_ENCODINGS: Final = frozenset({"utf8", "utf-8", "unicode"})
_MOST_CHARACTERS: Final = 1_000
_VERSION: Final = "15.0"

#: The settings that the server tells clients after the login. The names are PostgreSQL's.
REPORTED: Final = {
    "server_version": f"{_VERSION} (tidegate {metadata.version('tidegate')})",
    "server_encoding": "UTF8",
    _ENCODING: "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "default_transaction_read_only": "on",
    "in_hot_standby": "off",
}
VERSION_TEXT: Final = f"PostgreSQL {_VERSION} compatible, tidegate {metadata.version('tidegate')}"
_DEFAULTS: Final = {
    **{name.lower(): value for name, value in REPORTED.items()},
    "application_name": "",
    "extra_float_digits": "1",
    "max_identifier_length": "63",
    "search_path": "public",
    "server_version_num": "150000",
    "statement_timeout": "0",
    "transaction_isolation": "serializable",
    "transaction_read_only": "on",
    DIALECT: Dialect.TIDEGATE.value,
}


class SessionSettings:
    """The settings of one session."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int) -> None:
        """``most`` is the greatest number of settings that may be set."""
        self._values: dict[str, str] = {}
        self._most = most

    @property
    def dialect(self) -> Dialect:
        """The dialect that the session's subscriptions follow."""
        return Dialect(self.get(DIALECT))

    def get(self, name: str) -> str:
        """Return a setting's value. Raises ``RequestRefused`` for an unknown setting."""
        value = self._values.get(name, _DEFAULTS.get(name))
        if value is None:
            raise RequestRefused(
                f'unrecognized configuration parameter "{name[:60]}"', "unknown_setting", "42704"
            )
        return value

    def set(self, name: str, value: str | None) -> None:
        """Give a setting a value; ``None`` stands for its default.

        Raises ``RequestRefused`` for a wrong value, and for too many or too long settings.
        """
        if value is None:
            self._values.pop(name, None)
            return
        if name == DIALECT and value not in {each.value for each in Dialect}:
            raise _invalid(name, value, "write tidegate or materialize")
        if name == _ENCODING and value.lower() not in _ENCODINGS:
            raise _invalid(name, value, "this server speaks UTF8 alone")
        if len(name) + len(value) > _MOST_CHARACTERS or (
            name not in self._values and len(self._values) >= self._most
        ):
            raise RequestRefused(
                f"A session keeps {self._most} settings of up to {_MOST_CHARACTERS} characters",
                "too_many_settings",
                "54000",
            )
        self._values[name] = "UTF8" if name == _ENCODING else value

    def clear(self) -> None:
        """Give every setting its default again."""
        self._values.clear()


def _invalid(name: str, value: str, hint: str) -> RequestRefused:
    return RequestRefused(
        f'invalid value for parameter "{name}": "{value[:60]}"', "invalid_setting", "22023", hint
    )
