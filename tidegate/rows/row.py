"""A row version, as decoded from one key and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Datum


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that the log holds and that cannot be read: ``cause`` says why, as an error would.

    It is no error yet, for it concerns only those who need the value.
    """

    cause: str


class Row(NamedTuple):
    """One version of one row.

    ``key`` holds the primary key's datums in index order. ``values`` holds the datums of the table's public
    columns in table order, hidden ones included and virtual ones left out; ``None`` says that the row was
    deleted. ``previous`` holds the same datums of the version that this one replaced, read by the same table
    version; it is empty when there was no row, ``Unreadable`` when that version cannot be read, and ``None``
    when the log does not say or nobody asked. ``scanned_at`` is the timestamp that an initial scan read the
    table at; ``None`` says that the row is a change, as all rows are that come live or by a catch-up.
    """

    table: TableDescriptor
    key: tuple[Datum, ...]
    values: tuple[Datum, ...] | None
    previous: tuple[Datum, ...] | Unreadable | None = None
    scanned_at: Timestamp | None = None

    def updated(self, version: Timestamp) -> Timestamp:
        """What records call ``updated``: when a scan read the row, or else its ``version``'s timestamp."""
        return version if self.scanned_at is None else self.scanned_at
