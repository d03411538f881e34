"""A token in the offsets of a group comes back whole, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.subscribe.state.checkpoint_cases import token_at
from tests.unit.client.subscribe.state.tables import frontier
from tidegate.client.subscribe.state.group_metadata import (
    METADATA_BYTES,
    GroupOffset,
    StoredCheckpoint,
    group_offsets,
    read_group,
)
from tidegate.errors import HistoryLost, StateError, TokenRefused
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedPartition


def test_a_group_without_offsets_has_no_checkpoint() -> None:
    assert read_group({}, "g") == StoredCheckpoint(0, None)


def test_the_metadata_keep_their_bytes() -> None:
    offsets = group_offsets(token_at(7, 2), 1_790_000_000_000, "g")
    assert {str(place): each.offset for place, each in offsets.items()} == {"t[0]": 700, "t[1]": 701}
    (metadata,) = {each.metadata for each in offsets.values()}
    assert metadata == (
        '{"digest":"7fde89c9cde25951","epoch":1790000000000,"fingerprint":"991f8815e586e805b6968df6a016e478",'
        '"format":1,"frontier":"7.0000000000"}'
    )


@pytest.mark.parametrize("partitions", [1, 120, 20_000])
def test_the_metadata_do_not_grow_with_the_partitions(partitions: int) -> None:
    """Of a whole token, 4,096 bytes would have been too few for 120."""
    token = token_at(7, partitions, "a topic with a name")
    offsets = group_offsets(token, 1_790_000_000_000, "g")
    assert max(len(each.metadata) for each in offsets.values()) < 200 < METADATA_BYTES
    assert read_group(offsets, "g") == StoredCheckpoint(1_790_000_000_000, token)
    assert (len(token) > METADATA_BYTES) == (partitions > 100)


@given(data=st.data())
def test_offsets_of_several_commits_are_the_newest_one_or_refused(data: st.DataObject) -> None:
    """Others may move or remove some of them; a later token may have fewer partitions."""
    found: dict[FeedPartition, GroupOffset] = {}
    token = ""
    for wall in range(1, data.draw(st.integers(2, 4))):
        token = token_at(wall, data.draw(st.integers(1, 4)))
        found |= group_offsets(token, wall, "g")
    assert read_group(found, "g") == StoredCheckpoint(wall, token)
    place = FeedPartition("t", data.draw(st.integers(0, len(found) - 1)))
    newest = found[place].metadata == group_offsets(token, wall, "g").get(place, found[place]).metadata
    if data.draw(st.booleans()):
        found[place] = replace(found[place], offset=found[place].offset + 1)
    else:
        del found[place]
    try:
        assert read_group(found, "g").token in ((None, token) if not found else (token,))
        assert not newest or not found or place not in group_offsets(token, wall, "g")
    except HistoryLost as error:
        assert "do not fit together" in str(error)  # noqa: PT017 - either is right


_FORMED = '{"digest":"d","fingerprint":"f","format":1,"frontier":"7.0000000000","epoch":%s}'


@pytest.mark.parametrize(
    "metadata",
    [
        *("", "other", "[]", "{}", '{"format":1}', '{"format":"x"}'),
        *('{"format":1e999}', '{"format":NaN}', '{"format":2.0}', '{"format":true}'),
        *(_FORMED % epoch for epoch in ("1e999", "NaN", "1.5", '"1"', "true", "null", "[]")),
    ],
)
def test_an_offset_that_somebody_else_committed_is_history_lost(metadata: str) -> None:
    found = group_offsets(token_at(7, 2), 1, "g")
    found[FeedPartition("t", 1)] = GroupOffset(5, metadata)
    with pytest.raises(HistoryLost, match=r"group g are no checkpoint \(that of t\[1\] was committed by"):
        read_group(found, "g")


def test_a_newer_format_is_refused() -> None:
    metadata = json.dumps({"format": 2})
    with pytest.raises(StateError, match=r"have metadata of format 2, .* Upgrade"):
        read_group({FeedPartition("t", 0): GroupOffset(5, metadata)}, "g")


def test_a_format_of_many_digits_is_not_quoted_whole() -> None:
    metadata = json.dumps({"format": int("9" * 4_000)})
    with pytest.raises(StateError, match=r"have metadata of format 9+\.\.\., ") as refused:
        read_group({FeedPartition("t", 0): GroupOffset(5, metadata)}, "g")
    assert len(str(refused.value)) < 300


def test_tokens_that_offsets_cannot_hold_are_refused() -> None:
    with pytest.raises(TokenRefused, match="has no offsets, so the consumer group g cannot keep it"):
        group_offsets(str(ResumeToken(frontier(1), "f")), 1, "g")
    long = ResumeToken(frontier(1), "f" * METADATA_BYTES, {FeedPartition("t", 0): 1})
    with pytest.raises(TokenRefused, match=r"4096 characters: the metadata of an offset has 4096 bytes"):
        group_offsets(str(long), 1, "g")
    with pytest.raises(TokenRefused, match="damaged, or none"):
        group_offsets("17", 1, "g")
