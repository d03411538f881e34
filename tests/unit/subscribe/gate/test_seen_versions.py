"""A version that comes again is a repeat if it is an exact copy."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.gate.records import ONE, row
from tidegate.errors import RepeatDiffers
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.seen_versions import SeenVersions


def test_a_copy_is_a_repeat_and_another_version_is_not() -> None:
    seen = SeenVersions(ONE)
    assert not seen.is_repeat(row(0, 1, 5), Timestamp(5))
    assert not seen.is_repeat(row(1, 1, 6), Timestamp(6))
    assert not seen.is_repeat(row(2, 2, 5), Timestamp(5))
    assert seen.is_repeat(row(3, 1, 5), Timestamp(5))


def test_a_version_with_another_value_is_refused_with_its_place() -> None:
    seen = SeenVersions(ONE)
    seen.is_repeat(row(0, 1, 5), Timestamp(5))
    with pytest.raises(RepeatDiffers, match=r"offset 7 of t\[0\]"):
        seen.is_repeat(row(7, 1, 5, value=9), Timestamp(5))
