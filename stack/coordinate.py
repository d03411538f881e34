"""Maven coordinates."""

from __future__ import annotations

from typing import NamedTuple


class Coordinate(NamedTuple):
    """One published artifact: ``group:artifact:version``."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return ":".join(self)
