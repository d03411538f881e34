"""Bit strings in keys: 64-bit words, left aligned, each as a key integer; then the number of bits of the last
word that count.

Source: CockroachDB pkg/util/encoding/encoding.go, pkg/util/bitarray.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.integers import (
    decode_uvarint_asc,
    decode_uvarint_desc,
    encode_uvarint_asc,
    encode_uvarint_desc,
)
from tidegate.rows.take import Decode, Encode, marker_at

ASC: Final = 0x3A
DESC: Final = 0x3B
WORD_BITS: Final = 64
#: The most bits of a bit string in a key. There a word of zeros takes one byte, but it prints as 64 digits.
MAX_BITS: Final = 16 << 20

_ASC_END: Final = 0x00
_DESC_END: Final = 0xFF


def words_of(bits: str) -> list[int]:
    """Return the 64-bit words of a text of 0 and 1. The last word is filled up with zeros on the right."""
    if bits.strip("01"):
        raise EncodingError(f"{bits!r} is not a string of bits")
    return [int(bits[i : i + WORD_BITS].ljust(WORD_BITS, "0"), 2) for i in range(0, len(bits), WORD_BITS)]


def bits_of(words: list[int], length: int) -> str:
    """Undo `words_of`. Raises `EncodingError` unless exactly ``length`` bits are in use."""
    if len(words) != -(-length // WORD_BITS):
        raise EncodingError(f"{len(words)} words cannot hold a string of {length} bits")
    text = "".join(f"{word:064b}" for word in words)
    if "1" in text[length:]:
        raise EncodingError(f"bits are set behind the end of a string of {length} bits")
    return text[:length]


def encode_bits_asc(bits: str) -> bytes:
    """Encode a bit string so that it sorts in the order of its text."""
    return _encode(bits, ASC, _ASC_END, encode_uvarint_asc)


def encode_bits_desc(bits: str) -> bytes:
    """Encode a bit string so that it sorts in the reverse order of its text."""
    return _encode(bits, DESC, _DESC_END, encode_uvarint_desc)


def decode_bits_asc(buffer: bytes, position: int) -> tuple[str, int]:
    """Undo `encode_bits_asc`. Raises `EncodingError` when malformed."""
    return _decode(buffer, position, ASC, _ASC_END, decode_uvarint_asc)


def decode_bits_desc(buffer: bytes, position: int) -> tuple[str, int]:
    """Undo `encode_bits_desc`. Raises `EncodingError` when malformed."""
    return _decode(buffer, position, DESC, _DESC_END, decode_uvarint_desc)


def _encode(bits: str, marker: int, terminator: int, integer: Encode) -> bytes:
    words = words_of(bits)
    last_bits = len(bits) - WORD_BITS * (len(words) - 1) if words else 0
    body = b"".join(map(integer, words))
    return bytes((marker,)) + body + bytes((terminator,)) + integer(last_bits)


def _decode(buffer: bytes, position: int, marker: int, terminator: int, integer: Decode) -> tuple[str, int]:
    if marker_at(buffer, position) != marker:
        raise EncodingError(f"byte 0x{buffer[position]:02x} at offset {position} does not begin a bit string")
    words: list[int] = []
    position += 1
    while marker_at(buffer, position) != terminator:
        word, position = integer(buffer, position)
        words.append(word)
    if len(words) > MAX_BITS // WORD_BITS:
        raise EncodingError(
            f"a bit string of {len(words)} words in a key is too long: {MAX_BITS} bits are read"
        )
    last_bits, end = integer(buffer, position + 1)
    if last_bits > WORD_BITS or bool(words) != bool(last_bits):
        raise EncodingError(f"a bit string of {len(words)} words has {last_bits} bits in the last one")
    return bits_of(words, WORD_BITS * (len(words) - 1) + last_bits if words else 0), end
