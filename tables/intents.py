"""Transactions with open intents.

Key: range id, 8 bytes big-endian, then the transaction id: the transactions of a range lie together. The
oldest one of a range holds its resolved timestamp back. A row is removed with its last intent.
"""

from __future__ import annotations

from typing import Final

from tables.table import Table
from tidegate.processor.batch import StateTable

INTENTS: Final = Table(StateTable.INTENTS, b"i")
