"""A row of every type, in every envelope, byte for byte.

The golden file has one line a record: envelope, what happened, key and value, separated by tabs. A change of
it is a change of the output format.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.changefeed.encoding.json.row_of_every_type import EVERY_TYPE, KEY
from tests.unit.changefeed.tables import deletion_of, row, table, update
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.hlc import Timestamp
from tidegate.rows.types import Kind

GOLDEN = Path(__file__).parent / "golden" / "every_type.tsv"
AT = Timestamp(1_743_530_146_812_942_001, 7)
NO_VALUE = b"(no value)"


def lines() -> list[bytes]:
    wide = table("wide", {name: sql_type for name, (sql_type, _) in EVERY_TYPE.items()}, key=KEY)
    values = {name: datum for name, (_, datum) in EVERY_TYPE.items()}
    full = row(wide, **values)
    empty = row(wide, **{name: datum if name in KEY else None for name, datum in values.items()})
    written = []
    for envelope in Envelope:
        encode = compile_encoder(wide, _options(envelope)).encode
        for happened, version in (
            ("row", full),
            ("update", update(full, empty)),
            ("deletion", deletion_of(full)),
        ):
            key, value = encode(version, AT)
            written.append(
                b"\t".join(
                    (envelope.value.encode(), happened.encode(), key, NO_VALUE if value is None else value)
                )
            )
    return written


def _options(envelope: Envelope) -> FeedOptions:
    """``updated`` where the envelope has room for it."""
    return FeedOptions(envelope=envelope, updated=not form_of(envelope).for_sinks)


def test_the_bytes_of_every_type_do_not_change() -> None:
    assert b"\n".join([*lines(), b""]) == GOLDEN.read_bytes()


def test_every_kind_of_type_has_an_example() -> None:
    assert {sql_type.kind for sql_type, _ in EVERY_TYPE.values()} == set(Kind)


def test_the_golden_file_is_json_that_others_can_read() -> None:
    for line in GOLDEN.read_bytes().splitlines():
        _, _, key, value = line.split(b"\t")
        assert len(json.loads(key)) == len(KEY)
        assert value in (b"", NO_VALUE) or isinstance(json.loads(value), dict)
