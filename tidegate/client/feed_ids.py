"""Makes feed ids in the client: they sort by creation, and none is made twice."""

from __future__ import annotations

import secrets
from typing import Final

from tidegate.changefeed.definition.feed import FeedId, feed_id
from tidegate.hlc import NANOS_PER_MS

# Crockford's base 32: its letters do not look like digits, and its characters sort by value.
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS: Final = 9  # milliseconds since 1970, until the year 3084
_RANDOM_DIGITS: Final = 7  # 35 bits: two clients in one millisecond collide once in 34 billion


def new_feed_id(now_ns: int) -> FeedId:
    """Return an id for a feed that is created at ``now_ns``, for example ``1hm2k3n4p-x7c0v9b``."""
    random = secrets.randbits(5 * _RANDOM_DIGITS)
    return feed_id(f"{_base32(now_ns // NANOS_PER_MS, _TIME_DIGITS)}-{_base32(random, _RANDOM_DIGITS)}")


def _base32(number: int, digits: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(digits)))
