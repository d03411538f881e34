"""Which keys a feed reads rows from: those of the index that is primary at the row's timestamp.

A feed's targets name all keys of their tables, since ``ALTER PRIMARY KEY`` makes another index the primary
one: index 1 holds the rows up to the moment of the new descriptor version, index 2 those from it on. What
stands in any other index at that moment is no row of the table (docs/log-contract.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.spans import Span


def keys_read(
    targets: Iterable[FeedTarget], rows: PartitionRows, first: Timestamp, last: Timestamp
) -> Iterator[Span]:
    """The keys, tenant prefix left out, from which rows of the targets are read that stand from ``first`` to
    ``last``, both included.

    They are all keys of a table whose primary index is not known for some of that time.
    """
    for target in targets:
        primary = rows.primary_keys(target.table_id, first, last)
        for span in target.spans:
            if primary is None:
                yield span
            else:
                yield from (part for keys in primary if (part := span.intersect(keys)) is not None)


def keys_scanned_since(
    targets: Iterable[FeedTarget], rows: PartitionRows, first: Timestamp, last: Timestamp, start: Timestamp
) -> Iterator[Span]:
    """The keys that an earlier epoch may have scanned, of a feed that goes on at ``start``.

    Versions from ``first`` to ``last`` changed there. A scan shows versions of any time, from the index that
    is primary when it is made. Nobody knows any more when that was: each index counts that was primary
    between ``last`` and ``start``. Versions of one timestamp (``first`` is ``last``) are new ones: for them
    only the index counts that was primary then, which ``keys_read`` has.
    """
    if first < last < start:
        yield from keys_read(targets, rows, last, start)
