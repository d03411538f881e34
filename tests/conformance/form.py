"""One encoding as the checks see it: bytes and datum, both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from tests.conformance.case import Case, Check
from tidegate.errors import EncodingError, RowError
from tidegate.rows.take import Decode, Encode


def equal(one: Any, other: Any) -> bool:
    """Equality in which NaN equals itself, in arrays too."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other) or (one != one and other != other)


def same_scale(one: Any, other: Any) -> bool:
    """Equality in which decimals differ by their scale, and NaN equals itself."""
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.as_tuple() == other.as_tuple()
    return equal(one, other)


@dataclass(frozen=True, slots=True)
class Form:
    """The functions by which cases of one kind are read, decoded, encoded and compared."""

    encode: Encode
    decode: Callable[[bytes], Any]
    read: Callable[[Case], Any]
    same: Callable[[Any, Any], bool] = equal


#: Some kinds name a type in each case, so the form is made for the case.
FormOf: TypeAlias = Callable[[Case], Form]


def always(form: Form) -> FormOf:
    """The same form for every case."""
    return lambda _case: form


def whole(decode: Decode) -> Callable[[bytes], Any]:
    """A decoder at a position as a decoder of exactly all bytes."""

    def decode_whole(data: bytes) -> Any:
        datum, end = decode(data, 0)
        if end != len(data):
            raise EncodingError(f"{len(data) - end} bytes are left over")
        return datum

    return decode_whole


def both_ways(form_of: FormOf) -> Check:
    """Bytes decode to the value, and the value encodes to the bytes."""

    def check(case: Case) -> str | None:
        form, data = form_of(case), bytes.fromhex(case["hex"])
        expected = form.read(case)
        decoded = form.decode(data)
        if not form.same(decoded, expected):
            return f"expected {expected!r}, decoded {decoded!r}"
        encoded = form.encode(expected)
        if encoded != data:
            return f"expected {data.hex()}, encoded {encoded.hex()}"
        return None

    return check


def decode_only(form_of: FormOf) -> Check:
    """Bytes that decode to the value, and that no encoder writes."""

    def check(case: Case) -> str | None:
        form, data = form_of(case), bytes.fromhex(case["hex"])
        expected = form.read(case)
        decoded = form.decode(data)
        if not form.same(decoded, expected):
            return f"expected {expected!r}, decoded {decoded!r}"
        return f"expected another form, encoded {data.hex()}" if form.encode(expected) == data else None

    return check


def refused(form_of: FormOf) -> Check:
    """Bytes that the decoder must refuse, by a named error."""

    def check(case: Case) -> str | None:
        try:
            decoded = form_of(case).decode(bytes.fromhex(case["hex"]))
        except RowError:
            return None
        return f"expected an error, decoded {decoded!r}"

    return check
