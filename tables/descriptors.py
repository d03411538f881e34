"""Versions of table descriptors.

Each partition keeps its own copy: a descriptor stands in every partition of the log before any row that
it governs, and what a row means must not depend on how far another partition has come.
"""

from __future__ import annotations

from typing import Final

from tidegate.processor.batch import StateTable
from tidegate.worker.state.table import Table

DESCRIPTORS: Final = Table(StateTable.DESCRIPTORS, b"d")
