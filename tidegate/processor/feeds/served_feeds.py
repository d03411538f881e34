"""Finds the feeds that ranges name in promises and hand-offs, by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span

_SPANS_MAX: Final = 10_000


class ServedFeeds:
    """The feeds of ``active`` that can miss versions, or are in a later epoch than the first, by span.

    A feed that cannot miss versions may still have gaps where it was detached. Then a range knows the feed by
    its id, and tells of the feed by the name of its epoch. An answer is kept, since most spans are asked for
    again.
    """

    def __init__(self, active: Iterable[PartitionFeed]) -> None:
        self._feeds = [feed for feed in active if feed.can_miss_versions or feed.told_as != feed.id]
        #: The different sets of spans that feeds watch: each is compared once for all its feeds.
        self._watched = dict.fromkeys(feed.spans for feed in self._feeds)
        self._of: dict[Span, tuple[str, ...]] = {}

    def __call__(self, span: Span | None) -> Sequence[str]:
        """Return the told names of the feeds that watch keys of ``span``, which may have a tenant prefix.

        There are none if the span is not known.
        """
        if span is None:
            return ()
        known = self._of.get(span)
        if known is None:
            if len(self._of) >= _SPANS_MAX:
                self._of.clear()
            known = self._of[span] = tuple(self._watching(without_tenant(span)))
        return known

    def _watching(self, span: Span) -> Iterable[str]:
        meeting = {watched for watched in self._watched if any(part.overlaps(span) for part in watched)}
        return (feed.told_as for feed in self._feeds if feed.spans in meeting)
