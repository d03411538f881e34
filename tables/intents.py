"""Transactions with open intents.

Key: range id, 8 bytes big-endian, then the transaction id: the transactions of a range lie together. The
oldest one of a range holds its resolved timestamp back. A row is removed with its last intent.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

INTENTS: Final = Table(StateTable.INTENTS, b"i")
