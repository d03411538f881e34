"""The timestamp that is seen without decoding is the one that decoding tells, or none."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import MalformedRecord
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.stamps import has_stamp, stamp, usual_stamps

DECODER = JsonDecoder(Envelope.WRAPPED)
_texts = st.text('ab"\\{}:, updated1.0', max_size=60) | st.just('"updated": "7.0000000000"}')
_members = st.dictionaries(
    st.sampled_from(("after", "before", "updated", "key")), st.none() | _texts, max_size=3
)


def test_a_stamp_is_the_last_member_of_the_value() -> None:
    assert stamp(b'{"after": null, "updated": "1.0000000002"}') == Timestamp(1, 2)
    assert stamp(b'{"updated":"1.0000000002"}') == Timestamp(1, 2)
    assert stamp(b'{"after": {"updated": "1.0000000002"}}') is None
    assert stamp(b'{"updated": "1.0000000002", "after": null}') is None
    assert stamp(b"") is None
    assert stamp(None) is None


@given(
    row=st.none() | _members,
    updated=st.builds(Timestamp, st.integers(0, 10**19 - 1), st.integers(0, 2**31 - 1)),
)
def test_a_stamp_is_what_decoding_tells(row: dict[str, str | None] | None, updated: Timestamp) -> None:
    value = json.dumps({"after": row, "updated": updated.decimal()}).encode()
    seen = stamp(value)
    try:
        record = DECODER.decode(b"[1]", value)
    except MalformedRecord:
        return  # above the highest wall time
    assert isinstance(record, RowRecord)
    assert seen in (None, record.updated)


@given(value=st.recursive(st.none() | _texts, lambda inner: st.dictionaries(_texts, inner, max_size=3)))
def test_no_other_member_is_taken_for_a_stamp(value: object) -> None:
    text = json.dumps({"after": value}).encode()
    assert stamp(text) is None


_walls = st.integers(0, 10**19 - 1) | st.integers(10**18, 9 * 10**18) | st.integers(2**63 - 2, 2**63 + 1)
_logicals = st.integers(0, 5) | st.integers(2**31 - 2, 10**10 - 1)
_values = st.one_of(
    st.none(),
    st.binary(max_size=60),
    st.builds(
        lambda before, wall, logical: f'{before}, "updated": "{wall}.{logical:010d}"}}'.encode(),
        _texts,
        _walls,
        _logicals,
    ),
)


@given(values=st.lists(_values, min_size=1, max_size=6))
def test_the_stamps_of_a_batch_are_those_of_its_values(values: list[bytes | None]) -> None:
    walls, logicals, known = usual_stamps(values)
    for value, wall, logical, is_known in zip(values, walls.tolist(), logicals.tolist(), known, strict=True):
        if is_known:
            assert stamp(value) == Timestamp(wall, logical)
        else:
            assert (wall, logical) == (0, 0)


def test_the_usual_value_needs_no_second_look() -> None:
    value = b'{"after": null, "updated": "1763000000000000000.0000000007"}'
    walls, logicals, known = usual_stamps([value, None, value])
    assert known.tolist() == [True, False, True]
    assert walls.tolist() == [1763000000000000000, 0, 1763000000000000000]
    assert logicals.tolist() == [7, 0, 7]


def test_only_wrapped_values_have_stamps() -> None:
    assert has_stamp(DECODER)
    assert not has_stamp(JsonDecoder(Envelope.ROW))
    assert not has_stamp(JsonDecoder(Envelope.WRAPPED, connect_schema=True))
