"""Limits for commit loops whose sinks always follow."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidegate.worker.output.outlet import OutletLimits

#: Nothing is ever detached, nor put on disk.
PATIENT: Final = OutletLimits(
    Path("/nonexistent"), memory_bytes=1 << 40, spool_bytes=0, stall_s=1e9, drain_s=1e9
)
