"""What a version counts for."""

from __future__ import annotations

import pytest

from tests.hand_log import at
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version


@pytest.mark.parametrize(("prev", "size"), [(None, 8), (b"", 8), (b"before", 14)])
def test_a_version_counts_for_its_key_and_its_values(prev: bytes | None, size: int) -> None:
    version = Version(b"key", at(1), b"value", prev, False, RangeId(7), RaftIndex(1), 0)
    assert version.size_bytes == size
