from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import Timestamp
from tidegate.spark.datasource.batch_bound import farthest_cut


@given(
    walls=st.lists(st.integers(1, 400), max_size=40).map(sorted),
    closed=st.builds(Timestamp, st.integers(1, 400), st.integers(0, 1)),
    most=st.integers(1, 20),
    step=st.sampled_from([1, 7, 50]),
)
def test_batches_reach_the_closed_cut_and_none_is_larger_than_it_has_to_be(
    walls: list[int], closed: Timestamp, most: int, step: int
) -> None:
    begin, batches = Timestamp(0), 0
    while begin < closed:
        first = begin

        def records_up_to(cut: Timestamp, first: Timestamp = first) -> int:
            return bisect_right(walls, cut.wall) - bisect_right(walls, first.wall)

        cut = farthest_cut(begin, closed, most, step, records_up_to)
        assert begin < cut <= closed
        assert cut == closed or cut.wall % step == 0
        smallest = min(closed, Timestamp((begin.wall // step + 1) * step))
        assert records_up_to(cut) <= most or cut == smallest
        if cut < closed:
            further = min(closed, Timestamp(cut.wall + step))
            assert records_up_to(further) > most, "it could have gone further"
        begin, batches = cut, batches + 1
    assert batches <= 400 // step + 2


def test_few_records_are_read_up_to_the_closed_cut_whatever_its_logical_part() -> None:
    closed = Timestamp(17, 5)
    assert farthest_cut(Timestamp(3), closed, 10, 1, lambda _: 10) == closed
