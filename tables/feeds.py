"""Feeds that the partition has taken up, with their epoch, definition, position and start.

A feed is partition state: from the batch that took it up on, each restart emits exactly its rows again.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

FEEDS: Final = Table(StateTable.FEEDS, b"f")
