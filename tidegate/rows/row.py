"""A row version, as decoded from one key and value."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Datum


class Row(NamedTuple):
    """One version of one row.

    ``key`` holds the primary key's datums in index order. ``values`` holds the datums of the table's public
    columns in table order, hidden ones included; ``None`` says that the row was deleted.
    """

    table: TableDescriptor
    key: tuple[Datum, ...]
    values: tuple[Datum, ...] | None
