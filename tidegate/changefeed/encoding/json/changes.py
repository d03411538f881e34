"""Prints a row together with the one before it, for envelopes that tell the operation or show the previous
row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import public_columns
from tidegate.changefeed.encoding.json.members import row_members
from tidegate.changefeed.encoding.json.template import (
    NULL,
    Datums,
    Member,
    beside,
    compile_template,
    constant,
    json_object,
)
from tidegate.changefeed.encoding.replaced import CREATE, DELETE, UPDATE, ChangeForm, require_previous
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

#: Returns the envelope's own members for an operation, besides ``after`` and ``before``.
Others: TypeAlias = Callable[[str], Sequence[Member]]


def compile_changes(
    table: TableDescriptor, options: FeedOptions, form: ChangeForm, others: Others, *, before: bool
) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of objects with ``after``, ``others``, and ``before`` if it is asked for.

    There is a template for each shape of a change: a new row, a row that a scan found, a changed row, a
    deleted row, and a deletion where nothing was. The printer raises ``RowError`` for a row whose previous
    value is not known.
    """
    width = len(public_columns(table))
    after, no_after = json_object("after", row_members(table, options)), constant("after", NULL)
    no_before = constant("before", NULL)

    def fill(op: str, now: Member, replaced: Member) -> Callable[[Datums], str]:
        return compile_template(json_object("", [now, *([replaced] if before else []), *others(op)]))

    created = fill(CREATE, after, no_before)
    scanned = fill(form.scanned, after, no_before)
    updated = fill(UPDATE, after, json_object("before", row_members(table, options, offset=width)))
    deleted = fill(DELETE, no_after, json_object("before", row_members(table, options)))
    nothing = fill(DELETE, no_after, no_before)

    def encode(row: Row, timestamp: Timestamp) -> bytes:
        values, previous = row.values, require_previous(row, options, form)
        rest = beside(row, timestamp)
        if values is None:
            text = deleted(previous + rest) if previous else nothing(rest)
        elif previous:
            text = updated(values + previous + rest)
        else:
            text = (created if row.scanned_at is None else scanned)(values + rest)
        return utf8(text)

    return encode
