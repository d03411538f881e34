"""Inputs damaged at random, whatever they mean: bytes, and texts by the words of their grammar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Final

_OFTEN_FEW: Final = (1, 1, 1, 2, 3, 8)
_BYTES: Final = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
#: Integers and lengths at the ends of what their encodings hold.
_INTEGERS: Final = (
    b"\x00",
    b"\x7f",
    b"\x80\x80\x80\x80\x08",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 8 + b"\x7f",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 10 + b"\x01",
    (2**31 - 1).to_bytes(4, "big"),
    (2**63).to_bytes(8, "big"),
    (2**64 - 1).to_bytes(8, "big"),
)
_WORDS: Final = re.compile(r"\w+|\s+|.", re.ASCII | re.DOTALL)
_LETTERS: Final = ("'", '"', "\\", "\0", "\n", "%", "\ud800", "\u0663", "\U0010ffff", "é", ".", "9", "-")


def damaged(chance: Random, data: bytes) -> bytes:
    """The bytes, changed in a few places."""
    changed = bytearray(data)
    for _ in range(chance.choice(_OFTEN_FEW)):
        _damage(chance, changed)
    return bytes(changed)


def _damage(chance: Random, data: bytearray) -> None:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(9):
        case 0 | 1 if data:
            data[at % len(data)] = chance.choice(_BYTES)
        case 2 if data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        case 3:
            del data[at : at + chance.randrange(1, 9)]
        case 4:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        case 5:
            data[at : at + chance.randrange(2)] = chance.choice(_INTEGERS)
        case 6 if data:
            start = chance.randrange(len(data))
            data[at:at] = data[start : start + chance.randrange(1, 40)]
        case 7:
            data[at:at] = bytes([chance.choice(_BYTES)]) * chance.randrange(1, 200)
        case 8:
            del data[at:]


def reworded(chance: Random, text: str, words: Sequence[str]) -> str:
    """The text with words of its grammar where they do not belong, and some of its own elsewhere or gone."""
    parts = _WORDS.findall(text)
    for _ in range(chance.choice(_OFTEN_FEW)):
        at = chance.randrange(len(parts) + 1)
        match chance.randrange(7):
            case 0:
                parts.insert(at, chance.choice(words))
            case 1:
                parts[at : at + 1] = [chance.choice(words)]
            case 2:
                del parts[at : at + chance.randrange(1, 4)]
            case 3:
                start = chance.randrange(len(parts) + 1)
                parts[at:at] = parts[start : start + chance.randrange(1, 12)]
            case 4:
                parts.insert(at, chance.choice(_LETTERS) * chance.choice((1, 1, 1, 5, 300)))
            case 5 if at < len(parts):
                parts[at] *= chance.choice((2, 3, 40))
            case 6:
                del parts[at + chance.randrange(20) :]
    return "".join(parts)


def text_bytes(text: str) -> bytes:
    """A text as an input; halves of surrogate pairs stay."""
    return text.encode("utf-8", "surrogatepass")


def text_of(data: bytes) -> str:
    """The text that an input is; any bytes are one."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")
