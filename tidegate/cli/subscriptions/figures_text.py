"""The figures of a subscription in one line, above the live table."""

from __future__ import annotations

from typing import Final

from tidegate.subscribe import SubscriptionFigures

_UNIT: Final = 1024


def figures_text(figures: SubscriptionFigures, rows: int, shown: int) -> str:
    """Return how many rows the table has and how old they are, and what waits, if anything does."""
    told = [] if figures.lag_s is None else [f"{rows} rows, complete {figures.lag_s:.1f} s ago"]
    if rows > shown:
        told.append(f"the first {shown} are shown")
    if figures.waiting_rows:
        told.append(f"{figures.waiting_rows} rows wait ({_size(figures.waiting_bytes)})")
    if figures.spilled_bytes:
        told.append(f"{_size(figures.spilled_bytes)} on disk")
    if figures.paused:
        told.append(f"{figures.paused_partitions} partitions paused")
    if figures.losses:
        told.append(f"history lost {figures.losses} times")
    told.append(f"{figures.retention_margin} records before what is deleted")
    return ", ".join(told)


def _size(count: int) -> str:
    if count < _UNIT:
        return f"{count} B"
    size = count / _UNIT
    return f"{size:.1f} KiB" if size < _UNIT else f"{size / _UNIT:.1f} MiB"
