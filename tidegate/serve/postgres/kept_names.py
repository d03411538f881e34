"""The values that a session keeps by name: its prepared statements, its portals, or its cursors."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from tidegate.errors import RequestRefused
from tidegate.serve.limits import ServeLimits

_Value = TypeVar("_Value")


class KeptNames(Generic[_Value]):
    """Values by their names. There is a limit to their number, and to the characters of all names and texts.

    The text of a value is the text of the statement that the value keeps in memory.
    """

    __slots__ = ("_kept", "_most", "_most_characters", "_what")

    def __init__(self, what: str, limits: ServeLimits) -> None:
        """``what`` says in errors what the values are, such as "portals"."""
        self._what = what
        self._most = limits.names
        self._most_characters = limits.kept_characters
        self._kept: dict[str, _Kept[_Value]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether there is a value of this name."""
        return name in self._kept

    def __getitem__(self, name: str) -> _Value:
        """Return a value. Raises ``KeyError``."""
        return self._kept[name].value

    def names(self) -> list[str]:
        """Return the names of all values."""
        return list(self._kept)

    def characters(self, name: str) -> int:
        """Return how many characters of text a value keeps. Raises ``KeyError``."""
        return self._kept[name].characters

    def require_room(self, name: str, characters: int) -> None:
        """Raise ``RequestRefused`` if there is no room for a value with a text of so many characters."""
        others = [(each, kept.characters) for each, kept in self._kept.items() if each != name]
        if len(others) >= self._most:
            raise RequestRefused(f"A session has up to {self._most} {self._what}", "too_many_names", "54000")
        if sum(len(each) + size for each, size in [*others, (name, characters)]) > self._most_characters:
            raise RequestRefused(
                f"The {self._what} of a session have up to {self._most_characters:,} characters in all",
                "too_many_names",
                "54000",
                "close some, or deallocate them",
            )

    def put(self, name: str, value: _Value, characters: int) -> None:
        """Keep a value. It replaces the value that has this name. Raises ``RequestRefused``."""
        self.require_room(name, characters)
        self._kept[name] = _Kept(value, characters)

    def pop(self, name: str) -> _Value | None:
        """Remove a value and return it; ``None`` if there is none of this name."""
        kept = self._kept.pop(name, None)
        return None if kept is None else kept.value

    def clear(self) -> None:
        """Remove all values."""
        self._kept.clear()


class _Kept(NamedTuple, Generic[_Value]):
    value: _Value
    characters: int
