"""The lines of ``tidegate tail``, of records that need no broker."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.definition.oversize import Oversize
from tidegate.changefeed.encoding.record import JsonDecoder
from tidegate.client.tail import line_of
from tidegate.hlc import Timestamp
from tidegate.verify import TopicRecord

VERSION = Timestamp(1_743_792_394_409_866_000, 2)


@pytest.mark.parametrize(("deleted", "what"), [(False, "row"), (True, "deletion")])
def test_a_row_that_was_too_large_says_so_and_which_version_it_is(deleted: bool, what: str) -> None:
    header = Oversize(1_234_567, deleted, VERSION, VERSION).header()
    record = TopicRecord("pets", 2, 7, b"[1]", b"", 0, [("tidegate-source", b"7/1/0"), header])
    assert line_of(record, JsonDecoder(Envelope.WRAPPED)) == (
        f"pets[2]@7 [1] -> left out: a {what} of 1234567 bytes, version 1743792394409866000.0000000002"
    )


def test_an_empty_value_that_nothing_explains_is_shown_as_its_bytes() -> None:
    record = TopicRecord("pets", 2, 7, b"[1]", b"", 0)
    assert line_of(record, JsonDecoder(Envelope.WRAPPED)) == "pets[2]@7 unreadable: key b'[1]' value b''"
