"""The version that a row replaced, for encoders that need it, and the error if it is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.errors import RowError
from tidegate.rows.row import Row, Unreadable
from tidegate.rows.types import Datum

#: Debezium's and CockroachDB's letters for the operations on a row.
CREATE: Final = "c"
UPDATE: Final = "u"
DELETE: Final = "d"
#: Debezium's letter for a row that a scan found.
READ: Final = "r"

_NOT_HELD: Final = (
    "the log does not hold it; the feed fails. Let the source write previous values into its log (the "
    "simulated store does, unless told not to)"
)
_UNREADABLE_ADVICE: Final = "the feed fails. Create the feed again, which then begins after this row"


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """The letters by which an envelope says whether a row was created, changed or deleted.

    ``scanned`` is the letter for a row that a scan found. If ``shows_missing`` is true, the deletion of a row
    that was not there shows a row before: the columns of the key, and NULL for all others. ``letters`` are
    all letters that the envelope has for operations.
    """

    scanned: str = CREATE
    shows_missing: bool = False
    letters: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "letters", frozenset({CREATE, UPDATE, DELETE, self.scanned}))


#: CockroachDB's form: a row that a scan found is a new one, and a row that was not there is not shown.
CHANGES: Final = ChangeForm()


def require_previous(row: Row, options: FeedOptions, form: ChangeForm) -> tuple[Datum, ...]:
    """Return the datums that the row replaced; empty if there was no row, and for rows of a scan.

    If ``form.shows_missing`` is true, the deletion of a row that was not there gets the datums of its key,
    and NULL for all other columns.

    Raises ``RowError`` when the log does not say what the row replaced, or when the replaced row cannot be
    read. A guess would call a changed row a new one, or show an old value that never existed.
    """
    if row.scanned_at is not None:
        return ()
    previous = row.previous
    if previous is None:
        raise _missing(row, options, _NOT_HELD)
    if isinstance(previous, Unreadable):
        raise _missing(row, options, f"it cannot be read ({previous.cause}); {_UNREADABLE_ADVICE}")
    if not previous and row.values is None and form.shows_missing:
        return _key_alone(row)
    return previous


def _missing(row: Row, options: FeedOptions, why: str) -> RowError:
    needs = f"envelope={options.envelope.value}{' with diff' if options.diff else ''}"
    return RowError(
        f"{needs} needs the value that a row of table {row.table.name} replaces, and {why}, or create the "
        "feed again without diff and with envelope=wrapped, row, key_only, bare or upsert"
    )


def _key_alone(row: Row) -> tuple[Datum, ...]:
    key = {part.column_id: datum for part, datum in zip(row.table.primary_key, row.key, strict=True)}
    return tuple(key.get(column.id) for column in row.table.columns if column.in_rows)


def operation(row: Row, previous: tuple[Datum, ...], form: ChangeForm) -> str:
    """Return the letter of the operation that put ``row`` in the place of ``previous``.

    The deletion of a row that was not there is a deletion too.

    Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go``, ``deduceOp``.
    """
    if row.values is None:
        return DELETE
    if row.scanned_at is not None:
        return form.scanned
    return UPDATE if previous else CREATE
