"""Feeds by names that they have, such as those of their topics.

A search for a name looks only at the feeds that have it.

For example, feeds ``a`` on the topics ``x`` and ``y`` and ``b`` on ``y`` are kept as ``x: (a,)`` and
``y: (a, b)``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import FeedId

#: Ids of feeds, sorted.
FeedIds: TypeAlias = tuple[FeedId, ...]
_NO_NAMES: Final[frozenset[str]] = frozenset()


class FeedsByName:
    """Feeds by names; a name may belong to several feeds, and a feed may have several names."""

    def __init__(self) -> None:
        self._names: dict[FeedId, frozenset[str]] = {}
        self._feeds: dict[str, FeedIds] = {}

    def put(self, feed_id: FeedId, names: Iterable[str]) -> None:
        """Note the names of a feed, instead of those that were noted before."""
        has = frozenset(names)
        had = self._names.pop(feed_id, _NO_NAMES)
        if has:
            self._names[feed_id] = has
        for name in had - has:
            self._remove(name, feed_id)
        for name in has - had:
            feeds = self._feeds.get(name, ())
            at = bisect_left(feeds, feed_id)
            self._feeds[name] = (*feeds[:at], feed_id, *feeds[at:])

    def of(self, name: str) -> FeedIds:
        """Return the feeds with the name."""
        return self._feeds.get(name, ())

    def groups(self) -> Iterator[FeedIds]:
        """Return the feeds of each name."""
        return iter(self._feeds.values())

    def _remove(self, name: str, feed_id: FeedId) -> None:
        feeds = self._feeds.pop(name)
        at = bisect_left(feeds, feed_id)
        if left := (*feeds[:at], *feeds[at + 1 :]):
            self._feeds[name] = left
