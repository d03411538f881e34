"""The net changes of a batch: for each key that differs, the row before the batch and the row after it.

Net changes do not have the timestamps of a batch, nor a row that came and went within it. So a
subscription delivers updates, and a consumer that asks for net changes has them computed from a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.errors import InputError
from tidegate.hlc import ZERO
from tidegate.subscribe.outputs.keyed_rows import (
    DELETE,
    INSERT,
    KEY_VIOLATION,
    UPSERT,
    key_change,
    keyed_groups,
)
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.updates.row_identity import row_identity
from tidegate.subscribe.updates.update import RowValues, Update, consolidated
from tidegate.subscribe.updates.value_order import values_key

#: A row of an envelope: its state, its key, and the values after these.
_KeyedRow: TypeAlias = tuple[str, RowValues, RowValues]


class NetChange(NamedTuple):
    """The change of one key over a whole batch.

    ``state`` is ``insert``, ``upsert``, ``delete`` or ``key_violation``, as in `mz_state`. ``before`` and
    ``after`` are whole rows by their columns' names; ``None`` where there is none. ENVELOPE UPSERT does not
    tell the row before: there ``before`` is always ``None``, and no state is ``insert``.
    """

    state: str
    key: RowValues
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def net_changes(columns: BatchColumns, rows: Iterable[RowValues], key: Sequence[str] = ()) -> list[NetChange]:
    """Return one change for each key that differs after the rows, in the order of the keys.

    ``key`` are the columns that no two rows share; by default KEY's, or the table's primary key. Raises
    ``InputError`` for a key that the rows do not have, and for a key other than KEY's.
    """
    columns.require_names()
    shape, own = columns.shape, columns.own
    data = [row for row in rows if not (shape.progress and row[1])]
    if not shape.key:
        positions = _positions(columns, key)
        updates = [Update(ZERO, row[own - 1], row[own:]) for row in data]
        return _netted(updates, positions, shape.columns)
    names = tuple(shape.columns[at] for at in shape.key)
    if key and {*key} != {*names}:
        raise InputError(f"The rows are by the KEY {', '.join(names)}, and not by {', '.join(key)}.")
    shown = (*names, *(shape.columns[at] for at in shape.rest))
    width = len(names)
    changes = [(row[own - 1], row[own : own + width], row[own + width :]) for row in data]
    violated = {row_identity(key): key for state, key, _ in changes if state == KEY_VIOLATION}
    trusted = [change for change in changes if row_identity(change[1]) not in violated]
    if shape.mode is OutputMode.DEBEZIUM:
        netted = _netted(list(_updates(trusted)), tuple(range(width)), shown)
    else:
        netted = list(_newest(trusted, shown))
    netted += [NetChange(KEY_VIOLATION, key, None, None) for key in violated.values()]
    return sorted(netted, key=lambda change: values_key(change.key))


def _positions(columns: BatchColumns, key: Sequence[str]) -> tuple[int, ...]:
    names = key or columns.primary_key
    if not names:
        raise InputError("The rows have no primary key. Say which columns no two rows share: key=['id'].")
    if unknown := sorted({*names} - {*columns.shape.columns}):
        raise InputError(f"The rows have no column {unknown[0]}: {', '.join(columns.shape.columns)}.")
    return tuple(columns.shape.columns.index(name) for name in names)


def _netted(updates: list[Update], key: tuple[int, ...], names: tuple[str, ...]) -> list[NetChange]:
    changes = [key_change(values, group) for values, group in keyed_groups(consolidated(updates), key)]
    return [
        NetChange(each.state, each.key, _named(names, each.before), _named(names, each.after))
        for each in changes
    ]


def _updates(changes: Iterable[_KeyedRow]) -> Iterator[Update]:
    """Yield the rows that rows of ENVELOPE DEBEZIUM took away and added, as updates."""
    for state, key, values in changes:
        half = len(values) // 2
        if state in (DELETE, UPSERT):
            yield Update(ZERO, -1, key + values[:half])
        if state in (INSERT, UPSERT):
            yield Update(ZERO, 1, key + values[half:])


def _newest(changes: Iterable[_KeyedRow], names: tuple[str, ...]) -> Iterator[NetChange]:
    """Yield what rows of ENVELOPE UPSERT leave: the last row of each key."""
    newest = {row_identity(change[1]): change for change in changes}
    for state, key, values in newest.values():
        yield NetChange(state, key, None, _named(names, None if state == DELETE else key + values))


def _named(names: tuple[str, ...], row: RowValues | None) -> Mapping[str, Any] | None:
    return None if row is None else dict(zip(names, row, strict=True))
