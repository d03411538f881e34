"""A range of which nothing was read for a while is silent."""

from __future__ import annotations

from tidegate.processor.table.silence import SILENT_MS, is_silent


def test_a_range_is_silent_when_it_was_not_heard_for_a_quarter_of_an_hour() -> None:
    assert SILENT_MS == 15 * 60_000
    heard_ms = 5_000
    assert not is_silent(heard_ms, heard_ms)
    assert not is_silent(heard_ms, heard_ms + SILENT_MS - 1)
    assert is_silent(heard_ms, heard_ms + SILENT_MS)
