"""Tests how figures are said."""

from __future__ import annotations

import pytest

from tidegate.client.why.finding import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 29, "1.5 GiB"),
        (2 << 40, "2048.0 GiB"),
    ],
)
def test_bytes_are_told_in_units(count: int, text: str) -> None:
    assert size(count) == text
