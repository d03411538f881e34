"""The table of table descriptors' versions.

Each log partition keeps its own copy. In every partition of the log, a descriptor stands before the rows that
are written by it. How a row is read must not depend on how far another partition has come.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

DESCRIPTORS: Final = Table(StateTable.DESCRIPTORS, b"d")
