"""The true states of a store's table at any time. Tests compare them with what was read through a feed."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tidegate.hlc import Timestamp
from tidegate.subscribe.updates.update import RowValues
from tidegate.subscribe.updates.value_order import values_key
from tidegate.verify import ExpectedVersion


class TrueStates:
    """The rows of one topic's table at any timestamp, according to what the store committed."""

    def __init__(self, expected: Iterable[ExpectedVersion], topic: str) -> None:
        self._versions: defaultdict[bytes, list[tuple[Timestamp, dict[str, Any] | None]]] = defaultdict(list)
        for version in expected:
            if version.topic == topic:
                after = json.loads(version.value or b"null", parse_float=Decimal)["after"]
                self._versions[version.key].append((version.scanned_at or version.timestamp, after))
        for versions in self._versions.values():
            versions.sort(key=lambda version: version[0])

    def rows(self, frontier: Timestamp, columns: tuple[str, ...]) -> list[RowValues]:
        """Return the rows below a frontier, in the order in which contents are told."""
        found = []
        for versions in self._versions.values():
            last = bisect_left(versions, frontier, key=lambda version: version[0])
            row = versions[last - 1][1] if last else None
            if row is not None:
                found.append(tuple(row[name] for name in columns))
        return sorted(found, key=values_key)
