"""INET datums as bytes, the same in keys and values: family (0 = IPv4, 1 = IPv6), mask length, address.

For example, 10.0.0.1/8 is ``00 08 0a 00 00 01``. Source: CockroachDB pkg/util/ipaddr.
"""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

from tidegate.errors import EncodingError
from tidegate.rows.take import take

Inet: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_V4: Final = 0
_V6: Final = 1


def encode_inet(address: Inet) -> bytes:
    """Return six bytes for an IPv4 address, eighteen for an IPv6 address."""
    family = _V4 if address.version == 4 else _V6
    return bytes((family, address.network.prefixlen)) + address.packed


def decode_inet(buffer: bytes, position: int) -> tuple[Inet, int]:
    """Undo `encode_inet`. Raises `EncodingError` for an unknown family, a bad mask, or truncation."""
    (family, mask), start = take(buffer, position, 2)
    if family not in (_V4, _V6):
        raise EncodingError(f"{family} is no address family (0 is IPv4, 1 is IPv6)")
    packed, end = take(buffer, start, 4 if family == _V4 else 16)
    if mask > 8 * len(packed):
        raise EncodingError(f"a mask of {mask} bits is longer than the address")
    interface = ipaddress.IPv4Interface if family == _V4 else ipaddress.IPv6Interface
    return interface((packed, mask)), end


def inet_of(data: bytes) -> Inet:
    """Return the address in ``data``. Raises `EncodingError` if ``data`` holds anything else."""
    address, end = decode_inet(data, 0)
    if end != len(data):
        raise EncodingError(f"{len(data) - end} bytes follow an address")
    return address
