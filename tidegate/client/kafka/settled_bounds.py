"""The bounds of partitions that may have a new leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from tidegate.client.kafka.cluster import Bounds

_ASKED: Final = 10
_BETWEEN_S: Final = 1.0

_Place = TypeVar("_Place")


def settled_bounds(
    ask: Callable[[], Mapping[_Place, Bounds]],
    read_to: Mapping[_Place, int],
    wait: Callable[[float], object] = time.sleep,
) -> Mapping[_Place, Bounds]:
    """Return the bounds that ``ask`` returns, once no partition ends below its offset in ``read_to``.

    A leader that has just begun does not know yet that its last records are committed, and may name a lower
    end for a moment. So ``ask`` is called up to ten times, with pauses of a second. If an end is still lower
    at the last call, the partition was cut, and the lower end is returned.
    """
    for _ in range(_ASKED - 1):
        bounds = ask()
        if all(each.end >= read_to.get(place, 0) for place, each in bounds.items()):
            return bounds
        wait(_BETWEEN_S)
    return ask()
