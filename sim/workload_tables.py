"""Tables of the workloads: makes a table's descriptor from columns, and the spans of its ranges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sim.plan import SimTable
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows.descriptor import Column, Family, KeyPart, TableDescriptor
from tidegate.rows.keyside.integers import encode_uvarint_asc
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.stored_descriptor import encode_descriptor
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_SECONDARY: Final = 2


def declare_table(
    table_id: int,
    name: str,
    columns: Sequence[tuple[str, str]],
    primary_key: Sequence[str],
    modified: Timestamp,
) -> TableDescriptor:
    """Return the first version of a table.

    ``columns`` are (name, SQL type); columns of the key are NOT NULL.
    """
    ids = {column: number for number, (column, _) in enumerate(columns, start=1)}
    return TableDescriptor(
        id=table_id,
        name=name,
        version=1,
        modified=modified,
        columns=tuple(
            Column(ids[column], column, parse_sql_type(text), nullable=column not in primary_key)
            for column, text in columns
        ),
        primary_key=tuple(KeyPart(ids[column]) for column in primary_key),
        families=(Family(0, "primary", tuple(ids.values())),),
    )


def table_span(table_id: int) -> Span:
    """Return the span of all keys of a table, in every index: from /Table/id to /Table/id+1."""
    return Span(encode_uvarint_asc(table_id), encode_uvarint_asc(table_id + 1))


def secondary_index(table_id: int) -> Span:
    """Return the span of all keys of index 2, which is built after the primary one."""
    return index_span(table_id, _SECONDARY)


def place_table(descriptor: TableDescriptor, splits: Sequence[bytes]) -> SimTable:
    """Return the table in ranges that are split at ``splits`` and cover all of its keys."""
    whole = table_span(descriptor.id)
    bounds = [whole.start, *sorted(splits), whole.end]
    spans = tuple(Span(start, end) for start, end in pairwise(bounds) if start < end)
    update = DescriptorUpdate(
        descriptor.id, descriptor.version, descriptor.modified, encode_descriptor(descriptor)
    )
    return SimTable(update, spans)
