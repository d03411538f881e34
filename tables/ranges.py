"""The table of ranges, with the position of the partition.

The key is the range id, 8 bytes big-endian. A row has the range's generation, applied index, span, closed and
resolved timestamp; for a quarantined range also the cause and its log offset. Ended ranges stay as rows, so
that a replay does not revive them.

The position row has a key of its own. Every step writes it. It says how far the log and the control topic are
applied, and a restart reads on from there.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

RANGES: Final = Table(StateTable.RANGES, b"r")
