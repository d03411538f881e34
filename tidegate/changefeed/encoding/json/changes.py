"""Prints a row together with the one before it, for envelopes that tell the operation or show the previous
row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import public_columns
from tidegate.changefeed.encoding.json.key import key_templates
from tidegate.changefeed.encoding.json.members import key_only_members, row_members
from tidegate.changefeed.encoding.json.template import (
    NULL,
    beside,
    compile_template,
    constant,
    json_object,
)
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.replaced import CREATE, DELETE, UPDATE, ChangeForm, require_previous
from tidegate.changefeed.encoding.row_templates import (
    Filling,
    Member,
    ReplacedTemplates,
    RowPart,
    RowTemplates,
)
from tidegate.changefeed.text.json_text import utf8
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

#: Returns the envelope's own members for an operation, besides ``after`` and ``before``.
Others: TypeAlias = Callable[[str], Sequence[Member]]


class ChangeTemplates(NamedTuple):
    """A template for each shape of a change: a new row, a row that a scan found, a changed row, a deleted
    row, and a deletion where nothing was.

    ``nothing`` and ``missing`` are both for a deletion where nothing was. `compile_changes` uses ``nothing``,
    and `of_rows` uses ``missing``. If the envelope shows the key as the row before, ``missing`` has the key.
    `compile_changes` then takes ``deleted``, since `require_previous` gives it the key as the row before.
    """

    created: Member
    scanned: Member
    updated: Member
    deleted: Member
    nothing: Member
    missing: Filling

    def of_rows(self, table: TableDescriptor, options: FeedOptions, keys: KeyForm) -> RowTemplates:
        """Return the templates of rows with keys of this form."""
        return RowTemplates(
            *key_templates(table, options, keys),
            Filling(self.created, (RowPart.VALUES,)),
            self.missing,
            ReplacedTemplates(
                Filling(self.updated, (RowPart.VALUES, RowPart.PREVIOUS)),
                Filling(self.deleted, (RowPart.PREVIOUS,)),
            ),
            scanned=Filling(self.scanned, (RowPart.VALUES,)),
        )


def change_templates(
    table: TableDescriptor, options: FeedOptions, form: ChangeForm, others: Others, *, before: bool
) -> ChangeTemplates:
    """Return templates of objects with ``after``, ``others``, and ``before`` if it is asked for."""
    width = len(public_columns(table))
    after, no_after = json_object("after", row_members(table, options)), constant("after", NULL)
    no_before = constant("before", NULL)

    def change(op: str, now: Member, replaced: Member) -> Member:
        return json_object("", [now, *([replaced] if before else []), *others(op)])

    nothing = change(DELETE, no_after, no_before)
    missing = Filling(nothing)
    if form.shows_missing:
        key_alone = json_object("before", key_only_members(table, options))
        missing = Filling(change(DELETE, no_after, key_alone), (RowPart.KEY,))
    return ChangeTemplates(
        created=change(CREATE, after, no_before),
        scanned=change(form.scanned, after, no_before),
        updated=change(UPDATE, after, json_object("before", row_members(table, options, first=width))),
        deleted=change(DELETE, no_after, json_object("before", row_members(table, options))),
        nothing=nothing,
        missing=missing,
    )


def compile_changes(
    templates: ChangeTemplates, options: FeedOptions, form: ChangeForm
) -> Callable[[Row, Timestamp], bytes]:
    """Return a printer of changes. It raises ``RowError`` for a row whose previous value is not known."""
    created, scanned, updated, deleted, nothing = map(compile_template, templates[:5])

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
