"""The keys that a feed reads rows from: those of the index that is primary at the row's timestamp.

A feed's targets name all keys of their tables, since ``ALTER PRIMARY KEY`` makes another index the primary
one. For example, index 1 holds the rows up to the moment of the new descriptor version, and index 2 those
from it on. The keys of any other index at that moment hold no rows of the table (docs/log-contract.md).
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
    """Yield the keys, without tenant prefix, of the targets' rows with timestamps from ``first`` to ``last``.

    Both timestamps are included. Where a table's primary index is not known for some of that time, all keys
    of the table are among them.
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
    """Yield the keys from which an earlier epoch may have scanned versions that changed since.

    The feed goes on at ``start``, and versions from ``first`` to ``last`` have changed. A scan shows versions
    of any time, from the index that is primary when the scan is made. Nobody knows any more when that was, so
    each index counts that was primary between ``last`` and ``start``. Where ``first`` is ``last`` the
    versions are new ones: for them only the index counts that was primary then, which ``keys_read`` has.
    """
    if first < last < start:
        yield from keys_read(targets, rows, last, start)
