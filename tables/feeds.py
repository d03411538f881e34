"""The table of feeds that the partition has taken up, with their epoch, definition, position and start.

A feed is part of the partition's state. So after a restart the partition gives exactly the same rows of the
feed again, beginning with the batch in which it took the feed up.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

FEEDS: Final = Table(StateTable.FEEDS, b"f")
