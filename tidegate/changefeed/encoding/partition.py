"""Which partition of an output topic a row goes to.

32-bit FNV-1a over the encoded key bytes, taken as a signed number, remainder by the partition count,
sign dropped. Source: the hash partitioner of the sarama client, which CockroachDB's Kafka sink uses; it
is neither the Java client's murmur2 nor librdkafka's CRC-32.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_OFFSET_BASIS: Final = 2166136261
_PRIME: Final = 16777619
_MASK: Final = 0xFFFFFFFF
_SIGN_BIT: Final = 0x80000000
#: A hash costs about 0.1 us a byte here, a remembered one less than 0.1 us; 3 MB when full.
_REMEMBERED_KEYS: Final = 1 << 14
#: Longer keys are not remembered: there may be as many of a megabyte each.
_REMEMBERED_BYTES: Final = 1 << 10


def fnv1a_32(data: bytes) -> int:
    """The 32-bit FNV-1a hash, unsigned."""
    state, prime, mask = _OFFSET_BASIS, _PRIME, _MASK
    for byte in data:
        state = (state ^ byte) * prime & mask
    return state


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition, from 0, for a record with this encoded key."""
    magnitude = _remembered(key) if len(key) <= _REMEMBERED_BYTES else _magnitude(key)
    return magnitude % partition_count


def _magnitude(key: bytes) -> int:
    state = fnv1a_32(key)
    return state if state < _SIGN_BIT else (1 << 32) - state


_remembered: Final = lru_cache(maxsize=_REMEMBERED_KEYS)(_magnitude)
