"""Decides when a range is silent, so that nobody waits for it any more (docs/protocols/log-time.md)."""

from __future__ import annotations

from typing import Final

#: A range is silent when nothing of it was read for this much elapsed log time.
SILENT_MS: Final = 900_000


def is_silent(heard_ms: int, now_ms: int) -> bool:
    """Whether a range that was heard at ``heard_ms`` is silent at ``now_ms``, in elapsed log time."""
    return now_ms - heard_ms >= SILENT_MS
