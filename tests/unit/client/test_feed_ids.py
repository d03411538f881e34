"""Feed ids sort by creation and do not collide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.client.feed_ids import new_feed_id

NOW_NS = 1_700_000_000_000_000_000
MS = 1_000_000


@given(st.integers(0, 2**63 - 1), st.integers(1, 10**9))
def test_ids_sort_by_the_millisecond_of_their_creation(now_ns: int, later_ms: int) -> None:
    assert new_feed_id(now_ns) < new_feed_id(now_ns + later_ms * MS)


def test_ids_of_one_moment_differ() -> None:
    assert len({new_feed_id(NOW_NS) for _ in range(1_000)}) == 1_000


def test_an_id_is_short_and_has_no_letters_that_look_like_digits() -> None:
    assert all(len(new_feed_id(NOW_NS)) == 17 for _ in range(100))
    assert not set("".join(new_feed_id(NOW_NS) for _ in range(100))) & set("ilou")
