"""The border between a processor and a kernel: native code that makes records of committed versions.

A kernel gets a plan of the rows that are wanted (``plan``), and then takes versions batch by batch. It keeps
nothing of a batch. It refuses versions that it does not know, without a trace, and Python takes those.
Python's own stage (``version_rows.py``, ``emitter.py``) is the reference: every record of a kernel equals the
one that Python would have made. docs/kernel.md has the whole picture; ``tidegate/kernel`` has the one kernel
there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidegate.changefeed.encoding.row_templates import RowTemplates
from tidegate.hlc import Timestamp
from tidegate.processor.batch import OutputRecord, UnframedRecord
from tidegate.processor.feeds.emitter import Destination
from tidegate.ranges.version import Version
from tidegate.rows import TableDescriptor


class LanePlan(NamedTuple):
    """The records of one table version for one feed, which is the ``feed``-th of the feeds of the plan.

    Versions at or below ``start`` are not written. ``scanned_at`` is the time of the initial scan that found
    the rows; ``None`` for all other rows.
    """

    feed: int
    start: Timestamp
    to: Destination
    templates: RowTemplates
    scanned_at: Timestamp | None = None


class VersionPlan(NamedTuple):
    """A version of a table, and how the rows that it governs are written: the rows from ``since`` on.

    ``lanes`` is ``None`` where Python writes them.
    """

    table: TableDescriptor
    since: Timestamp
    lanes: tuple[LanePlan, ...] | None


class TablePlan(NamedTuple):
    """A table whose versions above ``start`` some feed wants, with its versions by modification time."""

    table_id: int
    start: Timestamp
    versions: tuple[VersionPlan, ...]


class FeedRecords(NamedTuple):
    """A feed's records of a batch, in log order. ``numbers`` has the places of their versions.

    They are ``unframed`` if the feed's format has schemas, else ``records``.
    """

    records: Sequence[OutputRecord]
    unframed: list[UnframedRecord]
    numbers: list[int]


class Taken(NamedTuple):
    """The result of a batch of versions: the kernel's records, and the versions that it refused.

    ``feeds`` has the feeds with records, by their numbers in the plan. ``refused`` are the places of the
    versions that Python has to take, rising. ``highs`` has, for each table, the highest timestamp of the
    versions that the kernel has read.
    """

    feeds: dict[int, FeedRecords]
    refused: list[int]
    highs: dict[int, Timestamp]


class RowKernel(Protocol):
    """A kernel of one log partition."""

    def plan(self, tables: Sequence[TablePlan]) -> bool:
        """Take the plan that holds from here on. Return whether the kernel can write anything of it."""

    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        """Make records of versions. ``None``: Python has to take the whole batch."""
