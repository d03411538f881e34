"""Rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Final

from tests.hand_log import at
from tests.hostile.corpus.case import AVRO, CONNECT, Ends, Hostile, Stage
from tests.hostile.growing_inputs import nested_tuples
from tidegate.changefeed.definition.options import Envelope
from tidegate.raftlog.entry import WriteValue
from tidegate.rows import Json, TsOperand, TsOperation, TsOperator, TsQuery
from tidegate.rows.value_frame import seal
from tidegate.rows.valueside.varints import encode_length

_HUGE: Final = Decimal("1E+999000")
_ZEROS: Final = Json([Decimal("0E-1999")] * 60_000)
_INT_TAG: Final = b"\x23"
_STRING_TAG: Final = b"\x26"
_JSON_TAG: Final = b"\x2f\x0f"
_ARRAY_TAG: Final = b"\x2d"


def _sized(data: bytes) -> bytes:
    return encode_length(len(data)) + data


def _nested_json(depth: int) -> bytes:
    payload = b"\x80\x00\x00\x00"
    for _ in range(depth):
        payload = b"\x80\x00\x00\x01" + (0xD0000000 | len(payload)).to_bytes(4, "big") + payload
    return _JSON_TAG + _sized(payload)


def _nulls(count: int) -> bytes:
    return _ARRAY_TAG + _sized(b"\x11\x03" + encode_length(count) + b"\xff" * (count // 8))


def _ands(count: int) -> TsQuery:
    return TsQuery((TsOperation(TsOperator.AND),) * count + (TsOperand("a"),) * (count + 1))


def _null_in_the_key(stage: Stage) -> None:
    key = stage.table.key(1, Decimal("1.50"))
    stage.range.apply(WriteValue(key, at(5), seal(key, b"\x0a\x21")))


ROWS: Final = (
    Hostile(
        "a tuple nested 2,000 deep in a dropped column",
        "It was passed over by recursion: RecursionError ended every worker.",
        lambda stage: stage.body(nested_tuples(2_000)),
        Ends.WRITTEN,
    ),
    Hostile(
        "an integer of 200,000 bytes",
        "Its groups were put together in n * n: 1.2 s, and minutes for a megabyte.",
        lambda stage: stage.body(_INT_TAG + b"\xff" * 200_000 + b"\x01"),
        Ends.FAILED,
        "does not fit in 64 bits",
        "id INT, v INT",
    ),
    Hostile(
        "a length of 200,000 bytes",
        "As the integer: 5.4 s.",
        lambda stage: stage.body(_STRING_TAG + b"\xff" * 200_000 + b"\x01"),
        Ends.FAILED,
        "more than ten bytes",
    ),
    Hostile(
        "an array of 2,000,000 NULLs",
        "The whole bitmap was shifted for each element: over two minutes, for all partitions of the worker.",
        lambda stage: stage.body(_nulls(2_000_000)),
        Ends.WRITTEN,
        columns="id INT, v INT[]",
    ),
    Hostile(
        "an array of 4,000,000 NULLs",
        "As the array of 2,000,000; in Avro each NULL takes a third of a microsecond.",
        lambda stage: stage.body(_nulls(4_000_000)),
        Ends.FAILED,
        "announces 4000000 elements",
        "id INT, v INT[]",
        options=AVRO,
    ),
    Hostile(
        "DECIMAL(1000000) of 1E+999000 for Avro",
        "Thirteen bytes became a million digits in n * n: 25 s.",
        lambda stage: stage.row(_HUGE),
        Ends.FAILED,
        "more than 4096 digits",
        "id INT, v DECIMAL(1000000)",
        options=AVRO,
    ),
    Hostile(
        "DECIMAL(1000000) of 1E+999000 for Kafka Connect",
        "As for Avro: 26 s.",
        lambda stage: stage.row(_HUGE),
        Ends.FAILED,
        "more than 4096 digits",
        "id INT, v DECIMAL(1000000)",
        options=CONNECT,
    ),
    Hostile(
        "JSONB of 60,000 zeros with 1,999 places",
        "540 KB became a record of 120 MB.",
        lambda stage: stage.row(_ZEROS),
        Ends.FAILED,
        "zeros of 119940000 decimal places",
        "id INT, v JSONB",
    ),
    Hostile(
        "JSONB of 60,000 zeros with 1,999 places for Avro",
        "As for JSON.",
        lambda stage: stage.row(_ZEROS),
        Ends.FAILED,
        "zeros of 119940000 decimal places",
        "id INT, v JSONB",
        options=AVRO,
    ),
    Hostile(
        "an array of 60,000 zeros with 1,999 places",
        "300 KB became a record of 120 MB.",
        lambda stage: stage.row((Decimal("0E-1999"),) * 60_000),
        Ends.FAILED,
        "the row is too large",
        "id INT, v DECIMAL[]",
    ),
    Hostile(
        "JSONB nested 300 deep",
        "How deep a document may be hung on what had called: one engine read it, another did not.",
        lambda stage: stage.body(_nested_json(300)),
        Ends.FAILED,
        "nested too deeply",
        "id INT, v JSONB",
    ),
    Hostile(
        "JSONB nested 20,000 deep",
        "It was read by recursion, and each level from a copy of its bytes.",
        lambda stage: stage.body(_nested_json(20_000)),
        Ends.FAILED,
        "nested too deeply",
        "id INT, v JSONB",
    ),
    Hostile(
        "a TSQUERY of 60,000 ANDs",
        "It is 420 KB, and took half a second: each operator's code was looked for among all of them.",
        lambda stage: stage.row(_ands(60_000)),
        Ends.WRITTEN,
        columns="id INT, v TSQUERY",
    ),
    Hostile(
        "an array of 10,000 members with a label of 10,000 letters",
        "20 KB became a record of 100 MB; 1 MB would have become 5 GB.",
        lambda stage: stage.row(("x" * 10_000,) * 10_000),
        Ends.FAILED,
        "the row is too large",
        f"id INT, v kind('{'x' * 10_000}')[]",
    ),
    Hostile(
        "a legal row of 520 KB that JSON doubles",
        "No record had room for it where the row was kept: every worker ended, again at each start.",
        lambda stage: stage.row(b"x" * 520_000),
        Ends.WRITTEN,
        columns="id INT, v BYTES",
    ),
    Hostile(
        "a bit string of 19,200,000 bits in a key",
        "300 KB of a key became a text of 19 MB, in the key and in the value.",
        lambda stage: stage.key(b"\x89\x3a" + b"\x88" * 300_000 + b"\x00\xc8"),
        Ends.FAILED,
        "is too long",
        "id INT, v VARBIT",
        "id, v",
    ),
    Hostile(
        "a decimal of the key that is NULL in the value",
        "It was believed there: no row has such a key, and Kafka Connect's Avro has no form for it.",
        _null_in_the_key,
        Ends.FAILED,
        "column v of the key is NULL in the value",
        "id INT, v DECIMAL",
        "id, v",
        replace(AVRO, envelope=Envelope.UPSERT),
    ),
)
