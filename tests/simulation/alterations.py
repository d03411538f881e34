"""A workload whose tables get more columns, and other names, while it goes on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from sim.plan import SimTable, TransactionPlan, Workload
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows import TableDescriptor, decode_descriptor
from tidegate.rows.descriptor import Column
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.stored_descriptor import encode_descriptor


class Altered:
    """Another workload's transactions, and a schema change ``before`` some of them, by their numbers.

    The columns are nullable and without a default. So existing rows are not written again, and rows that the
    workload writes later have no value for them. ``renames`` is the share of the changes that give a table
    another name instead.
    """

    def __init__(
        self, workload: Workload, before: Collection[int], seed: int, *, renames: float = 0.0
    ) -> None:
        self._workload = workload
        self._before = before
        self._seed = seed
        self._renames = renames

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``."""
        return self._workload.tables(modified)

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``."""
        rng, renames = Random(f"{self._seed}:alterations"), Random(f"{self._seed}:renames")
        newest = [decode_descriptor(table.descriptor.descriptor) for table in self.tables(ZERO)]
        for number, plan in enumerate(self._workload.plans()):
            if number in self._before:
                which = rng.randrange(len(newest))
                alter = _with_a_name if renames.random() < self._renames else _with_a_column
                newest[which] = alter(newest[which])
                yield TransactionPlan((), alter=partial(_update, newest[which]))
            yield plan


def _with_a_column(table: TableDescriptor) -> TableDescriptor:
    """ALTER TABLE ... ADD COLUMN added<version> STRING."""
    version = table.version + 1
    number = max(column.id for column in table.columns) + 1
    added = Column(number, f"added{version}", parse_sql_type("STRING"))
    first, *others = table.families
    families = replace(first, column_ids=(*first.column_ids, number)), *others
    return replace(table, version=version, columns=(*table.columns, added), families=families)


def _with_a_name(table: TableDescriptor) -> TableDescriptor:
    """ALTER TABLE ... RENAME TO renamed<version>."""
    version = table.version + 1
    return replace(table, version=version, name=f"renamed{version}")


def _update(table: TableDescriptor, modified: Timestamp) -> DescriptorUpdate:
    table = replace(table, modified=modified)
    return DescriptorUpdate(table.id, table.version, table.modified, encode_descriptor(table))
