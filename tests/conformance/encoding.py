"""Cases of single encodings: ``key.*``, ``value.*``, ``mvcc.*``, and ``error.*`` of each."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from tests.conformance.case import Case, Check
from tests.conformance.form import Form, FormOf, always, both_ways, decode_only, refused, same_scale, whole
from tests.conformance.key_forms import ASC, key_forms
from tests.conformance.literals import datum_of, decimal_in, json_of, type_in, type_of
from tests.conformance.mvcc_values import MVCC_VALUE
from tidegate.errors import EncodingError
from tidegate.hlc import Timestamp
from tidegate.rows import Json
from tidegate.rows.keyside import decimals
from tidegate.rows.mvcc_key import MvccKey, decode_mvcc_key, encode_mvcc_key
from tidegate.rows.pretty import pretty_key
from tidegate.rows.table_key import prefix_end
from tidegate.rows.valueside.arrays import decode_array, encode_array
from tidegate.rows.valueside.datums import element_codec, value_codec
from tidegate.rows.valueside.decimals import decode_decimal_body, encode_decimal_body
from tidegate.rows.valueside.jsonb import decode_jsonb, encode_jsonb
from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag


def _value_datum(case: Case) -> Form:
    sql_type = type_of(str(case.get("sql_type") or case.get("type", "INT")))
    codec = value_codec(sql_type)
    delta = int(case.get("column_id_delta", 0))

    def encode(datum: Any) -> bytes:
        wire_type, data = (WireType.NULL, b"") if datum is None else codec.encode(datum)
        return encode_tag(delta, wire_type) + data

    def decode(data: bytes, position: int) -> tuple[Any, int]:
        found, number, start = decode_tag(data, position)
        readers = {int(wire_type): reader for wire_type, reader in codec.decoders.items()}
        if found != delta or number not in readers:
            raise EncodingError(f"the tag says column +{found} of wire type {number}")
        return readers[number](data, start)

    return Form(encode, whole(decode), lambda case: datum_of(sql_type, case["value"]), same_scale)


def _value_array(case: Case) -> Form:
    array_type = type_in(case)
    assert array_type.element is not None
    wire_type, encode, decode = element_codec(array_type.element)
    return Form(
        lambda elements: encode_array(elements, wire_type, encode),
        lambda payload: decode_array(payload, wire_type, decode),
        lambda case: datum_of(array_type, case["value"]),
    )


def _value_decimal(case: Case) -> Form:
    """Old encoders dropped trailing zeros: a case that spells an exponent means a number, not a scale."""
    data = bytes.fromhex(case["hex"])

    def read(case: Case) -> Decimal:
        expected = decimal_in(case)
        if "e" not in str(case["value"]).lower():
            return expected
        decoded = decode_decimal_body(data)
        return decoded if decoded == expected else expected

    return Form(encode_decimal_body, decode_decimal_body, read, same_scale)


def _value_jsonb(case: Case) -> Form:
    """Older payloads have a length on entry 0: they are read, but not written any more."""
    data = bytes.fromhex(case["hex"])

    def encode(document: Json) -> bytes:
        return data if _is_older_jsonb(data) else encode_jsonb(document.value)

    return Form(
        encode, lambda payload: Json(decode_jsonb(payload)), lambda case: Json(json_of(case["value"]))
    )


def _is_older_jsonb(payload: bytes) -> bool:
    header = int.from_bytes(payload[:4], "big")
    has_entries = header >> 29 != 1 and header & 0x1FFF_FFFF
    return bool(has_entries) and not payload[4] & 0x80


def _mantissa(case: Case) -> Form:
    exponent = int(case.get("exponent_base100", 0))

    def encode(value: Decimal) -> bytes:
        found, mantissa = decimals.mantissa_of(value)
        if found != exponent:
            raise EncodingError(f"the base-100 exponent is {found}")
        return mantissa

    return Form(encode, lambda data: decimals.number_of("", exponent, data), decimal_in)


def _mvcc_key_in(case: Case) -> MvccKey:
    value = case["value"]
    timestamp = Timestamp(int(value["wall"]), int(value["logical"]))
    key = bytes.fromhex(value["key_hex"]) if "key_hex" in value else str(value["key"]).encode()
    return MvccKey(key, timestamp, bool(value.get("synthetic", False)))


def _check_prefix_end(case: Case) -> str | None:
    end = prefix_end(bytes.fromhex(case["value"]))
    return None if end == bytes.fromhex(case["hex"]) else f"expected {case['hex']}, got {end.hex()}"


def _check_pretty(case: Case) -> str | None:
    text = pretty_key(bytes.fromhex(case["hex"]))
    return None if text == case["value"] else f"expected {case['value']}, got {text}"


def _forms() -> Iterator[tuple[str, FormOf]]:
    yield from key_forms()
    yield "key.decimal.mantissa", _mantissa
    yield "value.datum", _value_datum
    yield "value.decimal", _value_decimal
    yield "value.array", _value_array
    yield "value.jsonb", _value_jsonb
    yield "mvcc.key", always(Form(encode_mvcc_key, decode_mvcc_key, _mvcc_key_in))
    yield "mvcc.value", always(MVCC_VALUE)


def _checks() -> Iterator[tuple[str, Check]]:
    for kind, form_of in _forms():
        yield kind, both_ways(form_of)
        yield f"{kind}.decode_only", decode_only(form_of)
        yield f"error.{kind}", refused(form_of)
        if kind.endswith(ASC):
            yield f"error.{kind.removesuffix(ASC)}", refused(form_of)
    yield "key.prefix_end", _check_prefix_end
    yield "key.pretty", _check_pretty


CHECKS: Final[dict[str, Check]] = dict(_checks())
