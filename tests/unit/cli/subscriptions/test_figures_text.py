"""The line above the live table says what there is, and nothing of what there is not."""

from __future__ import annotations

from dataclasses import replace

from tidegate.cli.subscriptions.figures_text import figures_text
from tidegate.subscribe import FeedPartition, SubscriptionFigures

QUIET = SubscriptionFigures("diffs", lag_s=0.25, retention_margin=700)


def test_a_quiet_subscription_has_its_rows_its_lag_and_its_margin() -> None:
    assert figures_text(QUIET, 3, 30) == "3 rows, complete 0.2 s ago, 700 records before what is deleted"


def test_what_waits_is_told_while_it_waits() -> None:
    busy = replace(
        QUIET,
        waiting_rows=5,
        waiting_bytes=2048,
        spilled_bytes=3 * 1024 * 1024,
        paused=(FeedPartition("t", 0),),
        losses=1,
    )
    told = figures_text(busy, 40, 30)
    assert told == (
        "40 rows, complete 0.2 s ago, the first 30 are shown, 5 rows wait (2.0 KiB), 3.0 MiB on disk, "
        "1 partitions paused, history lost 1 times, 700 records before what is deleted"
    )
    assert "5 rows wait (9 B)" in figures_text(replace(busy, waiting_bytes=9), 40, 30)
