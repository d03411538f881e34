"""JSONB payloads: today's form, the older one, and damaged ones."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import given

from tests.unit.rows.sameness import exact
from tests.unit.rows.strategies import json_values
from tidegate.errors import EncodingError
from tidegate.rows import JsonValue
from tidegate.rows.valueside.jsonb import decode_jsonb, encode_jsonb


@given(value=json_values)
def test_a_document_comes_back_exactly(value: JsonValue) -> None:
    assert exact(decode_jsonb(encode_jsonb(value))) == exact(value)


def test_object_keys_are_stored_sorted() -> None:
    document = decode_jsonb(encode_jsonb({"b": None, "a": True, "B": False}))
    assert isinstance(document, dict)
    assert list(document) == ["B", "a", "b"]


@pytest.mark.parametrize("count", [1, 32, 33, 64, 65, 100])
def test_every_32nd_entry_holds_an_offset(count: int) -> None:
    payload = encode_jsonb(["x" * i for i in range(count)])
    words = [payload[4 + 4 * i] for i in range(count)]
    assert [i for i, word in enumerate(words) if word & 0x80] == list(range(0, count, 32))


def test_an_objects_values_go_on_counting_bytes_but_begin_counting_entries() -> None:
    payload = encode_jsonb({"a": "xy", "b": "z"})
    words = [payload[i : i + 4].hex() for i in range(4, 20, 4)]
    assert words == ["90000001", "10000001", "90000004", "10000001"]


def test_an_older_payload_has_lengths_only() -> None:
    older = "8000000310000001200000041000000261" + "033489016263"
    assert decode_jsonb(bytes.fromhex(older)) == ["a", Decimal(1), "bc"]
    older_object = "40000002" + "1000000110000001" + "0000000040000000" + "6162"
    assert decode_jsonb(bytes.fromhex(older_object)) == {"a": None, "b": True}


def test_the_scale_of_a_number_survives() -> None:
    document = json.loads('{"price": 26.30, "n": 1}', parse_float=Decimal, parse_int=Decimal)
    assert str(decode_jsonb(encode_jsonb(document))) == "{'n': Decimal('1'), 'price': Decimal('26.30')}"


@given(value=json_values)
def test_every_cut_of_a_document_is_refused(value: JsonValue) -> None:
    payload = encode_jsonb(value)
    for size in range(len(payload)):
        with pytest.raises(EncodingError):
            decode_jsonb(payload[:size])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("00000000", "does not begin a JSON document"),
        ("2000000100000000", "does not begin a JSON document"),
        ("9fffffff", "announces 536870911 entries"),
        ("800000019000000261", "leaves its bounds"),
        ("80000002" + "90000002" + "90000001" + "6162", "leaves its bounds"),  # an offset after the last
        ("800000018000000061", "1 bytes follow a JSON container"),
        ("8000000180000001" + "61", "bytes where it has none"),
        ("80000001e0000000", "unknown type"),
        ("40000001" + "80000000" + "80000000", "a key that is no string"),
        ("80000001a0000005" + "0334890100", "follow a JSON number"),
        ("8000000190000001ff", "not UTF-8"),
    ],
)
def test_a_malformed_document_is_refused_with_a_reason(payload: str, reason: str) -> None:
    with pytest.raises(EncodingError, match=reason):
        decode_jsonb(bytes.fromhex(payload))


def test_a_document_nested_beyond_reading_is_refused() -> None:
    payload = b"\x80\x00\x00\x00"
    for _ in range(3_000):
        payload = b"\x80\x00\x00\x01" + (0xD0000000 | len(payload)).to_bytes(4, "big") + payload
    with pytest.raises(EncodingError, match="nested too deeply"):
        decode_jsonb(payload)


def test_the_memory_of_a_nested_document_does_not_grow_with_its_depth() -> None:
    """A copy at each level took 200 times the bytes."""
    size = 1 << 20
    payload = b"\x80\x00\x00\x01" + (0x10000000 | size).to_bytes(4, "big") + b"x" * size
    for _ in range(200):
        payload = b"\x80\x00\x00\x01" + (0x50000000 | len(payload)).to_bytes(4, "big") + payload
    tracemalloc.start()
    try:
        decode_jsonb(payload)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
