"""Ranges, and the position of the partition.

Key: the range id, 8 bytes big-endian; the position under its own key. A row holds the generation, applied
index, span, closed and resolved timestamp, or why and since where the range is quarantined. Ended ranges
stay as rows, so that a replay does not revive them. The position row is written by every step: it says
how far the log and the control topic are applied, and is what a restart reads from.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

RANGES: Final = Table(StateTable.RANGES, b"r")
