"""The example on the spec page says what the page says it does."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import Command, Generation, RaftIndex, RangeId, WriteValue

_PAGE = Path(__file__).parents[3] / "docs" / "log-contract.md"


def test_the_hex_example_decodes_to_what_the_page_describes() -> None:
    text = _PAGE.read_text()
    (value,) = re.findall(r"```hex\n([0-9a-f]+)\n```", text)
    (key,) = re.findall(r"Key `([0-9a-f]{16})`", text)
    write = WriteValue(
        bytes.fromhex("bd898a88"), Timestamp(1_700_000_000_000_000_000, 1), bytes.fromhex("b244bd870a")
    )
    closed = ClosedTimestamp(Timestamp(1_699_999_997_000_000_000))
    expected = Command(RangeId(7), Generation(2), RaftIndex(41), (write,), closed)
    assert decode_entry(bytes.fromhex(key), bytes.fromhex(value)) == expected
    assert encode_entry(expected).hex() == value
