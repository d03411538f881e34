"""A row version, decoded from one key and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Datum


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value in the log that cannot be read. ``cause`` says why, in the words of an error.

    It is an object and no exception, since it concerns only readers that need the value.
    """

    cause: str


class Row(NamedTuple):
    """One version of one row.

    ``key`` holds the primary key's datums in index order. ``values`` holds the datums of the table's public
    columns in table order, with hidden columns and without virtual ones; ``None`` means that the row was
    deleted. ``previous`` holds the same datums of the version that this one replaced, read by the same table
    version. It is empty when there was no row, ``Unreadable`` when that version cannot be read, and ``None``
    when the log does not hold it or nobody asked for it. ``scanned_at`` is the timestamp at which an initial
    scan read the table. ``None`` means that the row is a change, which came live or by a catch-up scan.
    """

    table: TableDescriptor
    key: tuple[Datum, ...]
    values: tuple[Datum, ...] | None
    previous: tuple[Datum, ...] | Unreadable | None = None
    scanned_at: Timestamp | None = None

    def updated(self, version: Timestamp) -> Timestamp:
        """Return the timestamp that records call ``updated``: that of the initial scan that read the row, or
        ``version`` for any other row.
        """
        return version if self.scanned_at is None else self.scanned_at
