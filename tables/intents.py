"""The table of transactions with open intents.

The key is the range id, 8 bytes big-endian, then the transaction id. So the transactions of a range lie
together. The oldest one holds the range's resolved timestamp back. A row is removed with the transaction's
last intent. Example: transaction ``t`` of range 7 has the key ``00 00 00 00 00 00 00 07`` and then ``t``.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

INTENTS: Final = Table(StateTable.INTENTS, b"i")
