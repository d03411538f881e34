"""Tests which URIs are read once."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.read_uris import remembered


@pytest.mark.parametrize(
    ("length", "count", "again"), [(10, 4_096, 0), (1_025, 64, 0), (10, 4_097, 4_097), (1_025, 65, 65)]
)
def test_the_last_uris_are_read_once_and_few_long_ones(length: int, count: int, again: int) -> None:
    read: list[str] = []
    reading = remembered(lambda text: read.append(text) or text)  # type: ignore[func-returns-value]
    uris = [f"{each:05d}".ljust(length, "x") for each in range(count)]
    for _ in range(2):
        assert list(map(reading, uris)) == uris
    assert len(read) == count + again


def test_a_uri_that_is_refused_is_refused_again() -> None:
    def refuse(text: str) -> str:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            remembered(refuse)("a")
