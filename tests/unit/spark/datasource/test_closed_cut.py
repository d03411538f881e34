from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import InputError
from tidegate.hlc import MAX, MAX_LOGICAL, Timestamp
from tidegate.spark.datasource.closed_cut import ClosedCut
from tidegate.subscribe.gate.feed_record import FeedPartition

_STORED = {"format": 1, "closed": "17.0000000002", "topics": {"t": {"id": "x", "offsets": {"0": 7}}}}


def test_the_stored_form_is_this_one() -> None:
    cut = ClosedCut(Timestamp(17, 2), {FeedPartition("t", 0): 7}, {"t": "x"})
    assert cut.to_dict() == _STORED
    assert ClosedCut.from_dict(_STORED) == cut


def test_a_cut_tells_its_feed_and_one_of_an_earlier_version_does_not() -> None:
    cut = ClosedCut(Timestamp(17, 2), {FeedPartition("t", 0): 7}, {"t": "x"}, "f")
    assert cut.to_dict() == {**_STORED, "feed": "f"}
    assert ClosedCut.from_dict({**_STORED, "feed": "f"}) == cut
    assert ClosedCut.from_dict(_STORED).feed_id == ""


@given(
    st.builds(Timestamp, st.integers(0, MAX.wall), st.integers(0, MAX_LOGICAL)),
    st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.dictionaries(st.integers(0, 200), st.integers(0, 2**62)),
        max_size=3,
    ),
)
def test_what_was_stored_is_read_again(closed: Timestamp, topics: dict[str, dict[int, int]]) -> None:
    positions = {
        FeedPartition(topic, number): offset
        for topic, each in topics.items()
        for number, offset in each.items()
    }
    cut = ClosedCut(closed, positions, {topic: f"id of {topic}" for topic in topics})
    assert ClosedCut.from_dict(json.loads(json.dumps(cut.to_dict()))) == cut


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({**_STORED, "format": 2}, "reads format 1: go on with the version that wrote it"),
        ({}, "reads format 1"),
        ({"format": 1}, "tidegate did not write"),
        ({**_STORED, "closed": "yesterday"}, "tidegate did not write"),
        ({**_STORED, "topics": [1]}, "tidegate did not write"),
        ({**_STORED, "topics": {"t": {"id": "x", "offsets": {"a": 7}}}}, "tidegate did not write"),
    ],
)
def test_another_form_is_refused_with_a_sentence(stored: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ClosedCut.from_dict(stored)
