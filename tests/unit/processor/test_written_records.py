"""Records in a kernel's bytes are the records that a list would have, from any index on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.processor.logs import PLAIN
from tests.unit.processor.schemed import schemas_for, schemed_options
from tidegate.hlc import NANOS_PER_MS
from tidegate.processor.batch import SOURCE_HEADER, OutputRecord, SchemedTopic, UnframedRecord
from tidegate.processor.written_records import (
    PLACES,
    LaneOf,
    WrittenPart,
    WrittenRecords,
    about_size,
    joined,
    rows_size,
    some_of,
    starting_at,
)

#: The lanes of a feed have headers of the same size.
_LANES = (
    LaneOf(0, "t", None, (), None),
    LaneOf(1, "u", None, (("extra", b"x"),), b""),
    LaneOf(1, "v", None, (("extra", b"y"),), b""),
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
    assert [*starting_at(listed, first)] == listed[first:]
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
    assert _written(answer, 0) != 1
    assert _written(answer, 0) != "k"


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


@given(_ANSWERS, _ANSWERS, st.integers(0, 1))
def test_they_have_the_bytes_of_a_list_without_the_names_of_source_headers(
    one: _Answer, other: _Answer, feed: int
) -> None:
    written, listed = joined(_written(one, feed), _written(other, feed)), _listed(one + other, feed)
    names = sum(len(name) for record in listed for name, _ in record.headers if name == SOURCE_HEADER)
    assert rows_size(written) == sum(map(_bytes_of, listed)) - names
    assert rows_size(listed) == sum(map(_bytes_of, listed))


def _bytes_of(record: OutputRecord | UnframedRecord) -> int:
    texts = [record.key, record.value or b"", *(name.encode() + value for name, value in record.headers)]
    return len(b"".join(texts))


@pytest.mark.parametrize("headers", [[], [(SOURCE_HEADER, b"1/2/3"), ("team", b"blue")]])
def test_unframed_records_with_headers_alike_have_about_as_many_bytes_as_they_have(
    headers: list[tuple[str, bytes]],
) -> None:
    to = SchemedTopic("t", 3, schemas_for(PLAIN.descriptor, schemed_options()))
    values = (b"value", None, b"", b"v")
    rows = [UnframedRecord(to, b"key", value, 0, headers) for value in values]
    for count in range(len(rows) + 1):
        bytes_ = sum(map(_bytes_of, rows[:count]))
        assert about_size(rows[:count]) == rows_size(rows[:count]) == bytes_


@given(_ANSWERS, _ANSWERS, st.integers(0, 1), st.lists(st.integers(0, 11)))
def test_some_of_them_are_some_of_a_list(one: _Answer, other: _Answer, feed: int, numbers: list[int]) -> None:
    written = joined(_written(one, feed), _written(other, feed))
    listed = _listed(one, feed) + _listed(other, feed)
    numbers = [number % len(listed) for number in numbers] if listed else []
    assert some_of(written, numbers) == [listed[number] for number in numbers]
    assert some_of(listed, numbers) == [listed[number] for number in numbers]
    rising = sorted({*numbers})
    assert some_of(written, rising) == [listed[number] for number in rising]


_ALONE: _Answer = [(0, b"a", b"1", b"s", 0), (0, b"bb", b"", b"", 1), (0, b"c", b"3", b"", 2)]


@pytest.mark.parametrize("first", range(4))
def test_records_of_the_only_feed_of_an_answer_begin_at_any_index(first: int) -> None:
    assert [*starting_at(_written(_ALONE, 0), first)] == _listed(_ALONE, 0)[first:]


@pytest.mark.parametrize("numbers", [[0, 1, 2], [0, 0, 2], [2, 2, 2], [2, 1, 0], [1], []])
def test_some_of_the_only_feeds_records_are_those_with_the_numbers(numbers: list[int]) -> None:
    listed = _listed(_ALONE, 0)
    assert some_of(_written(_ALONE, 0), numbers) == [listed[number] for number in numbers]


def test_some_of_them_that_rise_stay_in_their_bytes_and_keep_no_part_without_records() -> None:
    one = _written([(0, b"a", b"1", b"s", 1), (0, b"b", b"2", b"s", 1)], 0)
    other = _written([(0, b"c", b"3", b"s", 1), (0, b"d", b"4", b"s", 1)], 0)
    some = some_of(joined(one, other), [2, 3])
    assert isinstance(some, WrittenRecords)
    assert len(some._parts) == 1
