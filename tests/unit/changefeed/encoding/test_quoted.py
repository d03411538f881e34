"""A reader of an output topic shows the beginning of what it cannot read, however large that is."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.avro.decode import _parsed
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.quoted import quoted_record
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.errors import MalformedRecord

_LARGE = b"\xff" * 1_000_000
_MOST = 2_000


def test_small_records_are_shown_whole() -> None:
    assert quoted_record(b"k", None) == "key b'k', value None"


@pytest.mark.parametrize("form", Format)
def test_a_large_record_is_shown_up_to_a_bound(form: Format) -> None:
    decoder = decoder_for(FeedOptions(format=form), lambda _: '"int"')
    framed = frame_prefix(7) if form is Format.AVRO else b""
    with pytest.raises(MalformedRecord) as malformed:
        decoder.decode(framed + _LARGE, framed + _LARGE)
    assert f"({len(framed) + len(_LARGE)} bytes)" in str(malformed.value)
    assert len(str(malformed.value)) < _MOST


def test_a_large_marker_and_a_large_schema_are_shown_up_to_a_bound() -> None:
    with pytest.raises(MalformedRecord) as malformed:
        OffsetMarkerDecoder().decode(None, _LARGE)
    assert len(str(malformed.value)) < _MOST
    for text in ("x" * 1_000_000, '{"type": "' + "x" * 1_000_000 + '"}'):
        with pytest.raises(MalformedRecord) as malformed:
            _parsed(7, text)
        assert len(str(malformed.value)) < _MOST
