"""The bench row: a table of eight columns whose rows print as about 200 bytes of JSON."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Final

from sim.workload_tables import declare_table
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.types import Datum

ORDERS_TABLE_ID: Final = 104
_COLUMNS: Final = (
    ("id", "INT"),
    ("customer", "INT"),
    ("status", "STRING"),
    ("amount", "DECIMAL(10,2)"),
    ("currency", "STRING"),
    ("paid", "BOOL"),
    ("created", "TIMESTAMPTZ"),
    ("note", "STRING"),
)
_STATUSES: Final = ("new", "confirmed", "packed", "shipped", "returned")
_CURRENCIES: Final = ("EUR", "USD", "GBP", "CHF", "SEK")
_NOTES: Final = ("leave at the door", "ring twice", "gift wrapping", "call before delivery", "")
_CREATED_FROM_S: Final = 1_600_000_000
_CREATED_WITHIN_S: Final = 100_000_000


def orders_table(modified: Timestamp) -> TableDescriptor:
    """Return the descriptor; the key is ``id``."""
    return declare_table(ORDERS_TABLE_ID, "orders", _COLUMNS, ("id",), modified)


def order_row(rng: Random, order_id: int) -> list[Datum]:
    """Return the datums of a row, in table order."""
    return [
        order_id,
        rng.randrange(1_000_000),
        rng.choice(_STATUSES),
        Decimal(rng.randrange(1, 10_000_000)).scaleb(-2),
        rng.choice(_CURRENCIES),
        rng.random() < 0.5,
        (_CREATED_FROM_S + rng.randrange(_CREATED_WITHIN_S)) * NANOS_PER_SECOND,
        rng.choice(_NOTES),
    ]
