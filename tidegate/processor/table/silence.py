"""When a range of which nothing is read is waited for no more (docs/ranges.md#log-time)."""

from __future__ import annotations

from typing import Final

#: A range that somebody waits for, and of which nothing was read for so much elapsed log time, is gone.
SILENT_MS: Final = 900_000


def is_silent(heard_ms: int, now_ms: int) -> bool:
    """Whether a range that was heard last at ``heard_ms`` has been silent for that long at ``now_ms``."""
    return now_ms - heard_ms >= SILENT_MS
