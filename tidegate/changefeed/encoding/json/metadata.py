"""The members of a record besides the columns: timestamps, key and topic."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.table_topics import table_topic
from tidegate.changefeed.encoding.columns import shown_columns
from tidegate.changefeed.encoding.json.key import primary_key_member
from tidegate.changefeed.encoding.json.template import (
    KEY,
    MVCC,
    UPDATED,
    MemberText,
    constant,
    datum,
    json_object,
)
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.row_templates import Member, Slot
from tidegate.changefeed.text.json_text import json_string
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor

#: The object that carries metadata where the row's columns stand at the top level.
METADATA_MEMBER: Final = "__crdb__"


def stamp_members(options: FeedOptions) -> list[Member]:
    """Return the members ``mvcc_timestamp`` and ``updated``, each only if the feed asks for it.

    The two timestamps of a row differ if a scan has brought the row.
    """
    asked = {"mvcc_timestamp": (MVCC, options.mvcc_timestamp), "updated": (UPDATED, options.updated)}
    return [decimal_member(name, position) for name, (position, wanted) in asked.items() if wanted]


def decimal_member(name: str, position: int) -> Member:
    """Return one of the row's timestamps as the text of its decimal."""
    return Member(name, '"%s"', (Slot(position, Timestamp.decimal),))


def wall_ns_member(name: str) -> Member:
    """Return the wall time of the row's commit, or of the scan that found it, in nanoseconds."""
    return datum(name, UPDATED, wall_ns_text)


def wall_ms_member(name: str) -> Member:
    """Return the wall time of the row's commit, or of the scan that found it, in milliseconds."""
    return datum(name, UPDATED, wall_ms_text)


def place_members(table: TableDescriptor, options: FeedOptions, keys: KeyForm) -> list[Member]:
    """Return the members ``key`` and ``topic``, each only if the feed asks for it.

    The member ``key`` is the primary key, even if the record's own key is that of ``key_column``.
    """
    members = []
    if options.key_in_value:
        members.append(datum("key", KEY, MemberText(primary_key_member(table, options, keys))))
    if options.topic_in_value:
        members.append(constant("topic", json_string(table_topic(TableName.of(table), options))))
    return members


def metadata_object(table: TableDescriptor, options: FeedOptions, members: list[Member]) -> list[Member]:
    """Return the members as one object beside the columns; an empty list if there are no members.

    Raises ``UnsupportedTable`` for a table that has a column with the object's name.
    """
    if not members:
        return []
    if any(column.name == METADATA_MEMBER for column in shown_columns(table, options)):
        raise UnsupportedTable(
            f"table {table.name} has a column named {METADATA_MEMBER}, where the {options.envelope.value} "
            "envelope puts its metadata: rename the column, use envelope=wrapped, or leave out "
            f"{', '.join(_asking(options))}"
        )
    return [json_object(METADATA_MEMBER, members)]


def wall_ns_text(timestamp: Timestamp) -> str:
    """Return a timestamp's wall time in nanoseconds."""
    return str(timestamp.wall)


def wall_ms_text(timestamp: Timestamp) -> str:
    """Return a timestamp's wall time in milliseconds."""
    return str(timestamp.wall_ms)


def _asking(options: FeedOptions) -> list[str]:
    names = ("updated", "mvcc_timestamp", "key_in_value", "topic_in_value")
    return [name for name in names if getattr(options, name)]
