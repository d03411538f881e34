"""Records in a kernel's bytes are the records that a list would have, from any index on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hlc import NANOS_PER_MS
from tidegate.processor.batch import SOURCE_HEADER, OutputRecord
from tidegate.processor.written_records import (
    PLACES,
    LaneOf,
    WrittenPart,
    WrittenRecords,
    joined,
    starting_at,
)

_LANES = (
    LaneOf(0, "t", None, (), None),
    LaneOf(1, "u", None, (("extra", b"x"),), b""),
    LaneOf(0, "v", None, (("extra", b"y"),), b""),
)
#: The records of an answer: lane, key, value, source and partition of each.
_ANSWERS = st.lists(
    st.tuples(
        st.sampled_from(range(len(_LANES))),
        st.binary(max_size=3),
        st.binary(max_size=3),
        st.binary(max_size=3),
        st.integers(0, 5),
    ),
    max_size=6,
)
_Answer = list[tuple[int, bytes, bytes, bytes, int]]


def _written(answer: _Answer, feed: int) -> WrittenRecords:
    text, places = b"", b""
    for number, (lane, key, value, source, partition) in enumerate(answer):
        ends = (len(text + key), len(text + key + value), len(text + key + value + source))
        places += PLACES.pack(number, lane, *ends, partition)
        text += key + value + source
    own = [number for number, (lane, *_) in enumerate(answer) if _LANES[lane].feed == feed]
    return WrittenRecords([WrittenPart(own, places, text, _walls(answer), _LANES)])


def _walls(answer: _Answer) -> list[int]:
    return [number * NANOS_PER_MS + 7 for number in range(len(answer))]


def _listed(answer: _Answer, feed: int) -> list[OutputRecord]:
    return [
        OutputRecord(
            _LANES[lane].topic,
            partition,
            key,
            value or _LANES[lane].empty,
            number,
            [*([(SOURCE_HEADER, source)] if source else []), *_LANES[lane].headers],
        )
        for number, (lane, key, value, source, partition) in enumerate(answer)
        if _LANES[lane].feed == feed
    ]


@given(_ANSWERS, _ANSWERS, st.integers(0, 1), st.integers(0, 12))
def test_they_are_those_of_a_list(one: _Answer, other: _Answer, feed: int, first: int) -> None:
    written = joined(_written(one, feed), _written(other, feed))
    listed = _listed(one, feed) + _listed(other, feed)
    assert isinstance(written, WrittenRecords)
    assert written == listed
    assert listed == written
    assert [*starting_at(written, first)] == listed[first:]
    assert written[first:] == listed[first:]
    assert written[:first] == listed[:first]
    assert [written[at] for at in range(-len(listed), len(listed))] == listed + listed


@given(_ANSWERS, st.integers(0, 1))
def test_each_record_is_an_output_record(answer: _Answer, feed: int) -> None:
    assert all(type(record) is OutputRecord for record in _written(answer, feed))


def test_other_records_are_not_equal() -> None:
    answer = [(0, b"k", b"v", b"s", 1)]
    (record,) = _listed(answer, 0)
    assert _written(answer, 0) != [record._replace(partition=2)]
    assert _written(answer, 0) != []
    assert _written(answer, 0) != (record, record)


def test_an_index_behind_the_last_one_is_an_error() -> None:
    with pytest.raises(IndexError):
        _written([(0, b"k", b"v", b"s", 1)], 0)[1]


@pytest.mark.parametrize("before", [[], [(0, b"a", b"", b"", 0)]])
def test_joined_to_a_list_they_are_a_list_and_stay_as_they_were(before: _Answer) -> None:
    listed: Sequence[OutputRecord] = _listed(before, 0)
    written = _written([(0, b"k", b"v", b"s", 1)], 0)
    assert joined(listed, written) == [*listed, *written]
    assert joined(written, listed) == [*written, *listed]
    assert len(written) == 1
    assert len(listed) == len(before)


def test_bytes_are_those_of_its_texts_and_headers_and_not_of_other_feeds() -> None:
    answer: _Answer = [(0, b"key", b"value", b"s", 1), (1, b"other", b"", b"", 0), (0, b"k", b"", b"", 1)]
    assert _written(answer[::2], 0).bytes == 10
    assert (_written(answer, 0).bytes, _written(answer, 1).bytes) == (10, 5 + len("extra") + len("y"))
