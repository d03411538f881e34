"""The keys of records in JSON: arrays of the primary key's values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from tidegate.subscribe.gate.wrapped_values import REFUSALS


class PlainKeys:
    """Decodes keys that are arrays without objects. The general decoder decodes all others."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(list[Any], float_hook=Decimal)

    def are_plain(self, keys: Sequence[bytes]) -> bool:
        """Whether all keys are arrays with values, none of which is an object."""
        try:
            return all(map(self._decoder.decode, keys)) and b"{" not in b"".join(keys)
        except REFUSALS:
            return False

    def values(self, key: bytes) -> Sequence[Any]:
        """Return the values of a key; an empty sequence if it is no array."""
        try:
            return self._decoder.decode(key)
        except REFUSALS:
            return ()
