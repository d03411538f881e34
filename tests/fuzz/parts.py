"""An input that has parts: each stands after its length, and any bytes are some parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_LENGTH_BYTES: Final = 4
#: In the place of a length: a record without a key, or without a value.
_ABSENT: Final = 0xFFFFFFFF


def joined(parts: Iterable[bytes | None]) -> bytes:
    """One input of all parts."""
    return b"".join(
        _ABSENT.to_bytes(_LENGTH_BYTES, "big")
        if part is None
        else len(part).to_bytes(_LENGTH_BYTES, "big") + part
        for part in parts
    )


def parted(data: bytes) -> Iterator[bytes | None]:
    """The parts of an input; the last one ends where the bytes end."""
    at = 0
    while at < len(data):
        begin = at + _LENGTH_BYTES
        length = int.from_bytes(data[at:begin], "big")
        if length == _ABSENT:
            yield None
            at = begin
        else:
            yield data[begin : begin + length]
            at = begin + length


def two(data: bytes) -> tuple[bytes | None, bytes | None]:
    """The first two parts, as key and value; what is not there is absent."""
    parts = parted(data)
    return next(parts, None), next(parts, None)
