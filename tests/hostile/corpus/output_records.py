"""Records of output topics, as their readers meet them: each is read, or refused by name."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from tests.hostile.corpus.case import AVRO
from tests.hostile.growing_rows import ENCODERS
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import frame_prefix


class OutputRecord(NamedTuple):
    """A record of an output topic. ``says`` stands in the sentence about it; nothing if it is read."""

    name: str
    broke: str
    options: FeedOptions
    key: bytes
    value: bytes | None
    schema: str = ""
    says: str = ""


CSV: Final = ENCODERS["csv"]
_DECIMAL: Final = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}}
        ],
    }
)


def avro_decimal(size: int) -> tuple[bytes, str]:
    """A framed key of one decimal of so many bytes, and its schema."""
    return frame_prefix(1) + avro_length(size) + b"\x7f" * size, _DECIMAL


def avro_length(size: int) -> bytes:
    """A length as Avro has it: zigzag, the lowest seven bits first."""
    rest, written = size << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


OUTPUT_RECORDS: Final = (
    OutputRecord(
        "an Avro decimal of 320,000 bytes",
        "fastavro makes a number of all of them in n * n: 8 s, and no other thread ran meanwhile.",
        AVRO,
        avro_decimal(320_000)[0],
        None,
        _DECIMAL,
        says="a decimal has 320000 bytes; at most 1701 are read",
    ),
    OutputRecord(
        "a CSV field of 200,000 characters",
        "Python's reader of CSV takes 131,072 characters: a feed's own row counted as unreadable.",
        CSV,
        b"",
        b"1," + b"x" * 200_000,
    ),
)
