"""Checks which Avro schemas a reader may use: those whose records cannot hold more values than their bytes
allow.

A schema comes from a registry, and controls the reader. Avro lets a type contain itself, and lets a value
take no bytes. With the first, a few bytes lead the reader deeper than its stack, and that ends the process.
With the second, a few bytes stand for more values than memory holds. No feed of tidegate writes such a
schema.
"""

from __future__ import annotations

from typing import Any, Final

#: The most types within each other. A feed's records have fewer than 10.
MOST_LEVELS: Final = 100
_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_SHOWN: Final = 100  # characters of a name


def schema_fault(parsed: Any) -> str:
    """Return why a reader may not use the schema, or an empty text. ``parsed`` is from ``parse_schema``.

    No type may stand within itself, and types may stand within each other at most 100 deep. A type whose
    values take no bytes (``null``, a ``fixed`` of no size, a record without fields) may only stand alone or
    as a branch of a union, whose number takes a byte. So a record of n bytes has at most 100 * n values.
    """
    try:
        _Levels().of(parsed, stands_alone=True)
    except _Unbounded as error:
        return str(error)
    return ""


class _Unbounded(Exception):
    """Raised for a schema that a reader may not use."""


class _Levels:
    """Counts the levels of types. Avro defines a type that has a name before the name is used alone."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._empty = {"null"}

    def of(self, schema: Any, *, stands_alone: bool = False) -> int:
        """Return how many levels of types a value of the schema has.

        ``stands_alone`` says that the value is the whole record or a branch of a union, so it may take no
        bytes. Raises ``_Unbounded`` for a schema that a reader may not use.
        """
        match schema:
            case str():
                return self._known(schema, stands_alone)
            case list():
                return _above(max((self.of(each, stands_alone=True) for each in schema), default=0))
            case {"type": "array", "items": elements} | {"type": "map", "values": elements}:
                return _above(self.of(elements))
            case {"type": "record" | "enum" | "fixed", "name": name}:
                self._named[name] = _above(self._within(schema))
                return self._known(name, stands_alone)
            case {"type": kind}:
                return self.of(kind, stands_alone=stands_alone)
        raise _Unbounded(f"{schema!r:.100} is no type")

    def _within(self, named: dict[str, Any]) -> int:
        """Return how many levels stand within a type that has a name."""
        if named["type"] == "enum":
            return 0
        if named["type"] == "fixed":
            if named["size"] <= 0:
                self._empty.add(named["name"])
            return 0
        if not named["fields"]:
            self._empty.add(named["name"])
        return max((self.of(field["type"]) for field in named["fields"]), default=0)

    def _known(self, name: str, stands_alone: bool) -> int:
        if name not in _PRIMITIVES and name not in self._named:
            raise _Unbounded(f"the type {name[:_SHOWN]!r} stands within itself, or nothing defines it")
        if name in self._empty and not stands_alone:
            raise _Unbounded(
                f"values of the type {name[:_SHOWN]!r} take no bytes, and it stands among others"
            )
        return self._named.get(name, 1)


def _above(levels: int) -> int:
    if levels >= MOST_LEVELS:
        raise _Unbounded(f"types stand within each other deeper than {MOST_LEVELS} levels")
    return levels + 1
