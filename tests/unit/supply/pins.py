"""The versions in ``constraints.txt``."""

from __future__ import annotations

from functools import cache

from stack.places import CHECKOUT
from supply.requirements import VERSIONS, Pin, read


@cache
def versions() -> dict[str, Pin]:
    return read(CHECKOUT / VERSIONS)


def version_of(name: str) -> str:
    return versions()[name].version
