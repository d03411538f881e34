"""Random datums of every type in the tables of the random workload."""

from __future__ import annotations

import string
import uuid
from collections.abc import Callable
from decimal import Decimal
from ipaddress import IPv4Interface, IPv6Interface
from random import Random
from typing import Final, TypeAlias

from tidegate.rows.types import Datum, Interval, Json, TimeTz

Draw: TypeAlias = Callable[[Random], Datum]

_LETTERS: Final = string.ascii_letters + ' 0\0é漢😀"\\'
_DAY_MICROS: Final = 86_400_000_000


def _text(rng: Random) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.randint(0, 12)))


def _integer(bits: int) -> Draw:
    """Return a source of small and large numbers of both signs."""
    return lambda rng: rng.getrandbits(rng.randint(1, bits - 1)) * rng.choice((1, -1))


def _decimal(rng: Random) -> Decimal:
    return Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2)


def _json(rng: Random) -> Json:
    return Json({"a": [Decimal(rng.randint(0, 9)), None, rng.random() < 0.5], "b": _text(rng)})


def _inet(rng: Random) -> Datum:
    if rng.random() < 0.5:
        return IPv4Interface((rng.getrandbits(32), rng.randint(0, 32)))
    return IPv6Interface((rng.getrandbits(128), rng.randint(0, 128)))


#: Types that a key keeps exactly: the decoded key has the same datum. Other types lose something in keys:
#: decimals lose their scale, and collated strings lose their text.
KEY_TYPES: Final[dict[str, Draw]] = {
    "INT": _integer(64),
    "STRING": _text,
    "BYTES": lambda rng: rng.randbytes(rng.randint(0, 8)),
    "UUID": lambda rng: uuid.UUID(int=rng.getrandbits(128)),
    "BOOL": lambda rng: rng.random() < 0.5,
    "DATE": lambda rng: rng.randint(-100_000, 100_000),
    "TIMESTAMPTZ": lambda rng: rng.randint(-(10**15), 2 * 10**15) * 1_000,
}
VALUE_TYPES: Final[dict[str, Draw]] = KEY_TYPES | {
    "INT2": _integer(16),
    "FLOAT": lambda rng: rng.uniform(-1e6, 1e6),
    "DECIMAL(12,2)": _decimal,
    "TIME": lambda rng: rng.randint(0, _DAY_MICROS),
    "TIMETZ": lambda rng: TimeTz(rng.randrange(_DAY_MICROS), rng.randint(-48, 48) * 900),
    "INTERVAL": lambda rng: Interval(
        rng.randint(-99, 99), rng.randint(-99, 99), rng.randint(-(10**12), 10**12)
    ),
    "INET": _inet,
    "BIT(5)": lambda rng: f"{rng.getrandbits(5):05b}",
    "JSONB": _json,
    "INT[]": lambda rng: tuple(rng.randint(-9, 9) for _ in range(rng.randint(0, 3))),
}
