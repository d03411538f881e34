"""Rows of one timestamp by their keys: the four cases of ENVELOPE UPSERT and ENVELOPE DEBEZIUM.

| updates of the key at this timestamp | UPSERT | DEBEZIUM |
|---|---|---|
| one, +1 | upsert: the new values | insert: NULL before, the new values after |
| one, -1 | delete: NULLs | delete: the old values before, NULL after |
| two, -1 and +1 | upsert: the new values | upsert: old values before, new values after |
| anything else | key_violation: NULLs | key_violation: NULLs |

A change may write a key differently, as 1.0 before and 1.00 after. For a consumer that compares texts these
are two keys. So there are two rows instead of the ``upsert``: a ``delete`` of the old key, and an ``upsert``
or ``insert`` of the new key.

Only the updates of one timestamp are looked at. So later rows of a violated key may say ``upsert`` or
``delete`` and be wrong; `tracked_keys` remembers the violation.
Source: Materialize ``src/adapter/src/active_compute_sink.rs``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.updates.row_identity import first_spelled, row_identity, written_identity
from tidegate.subscribe.updates.update import RowValues, Update
from tidegate.subscribe.updates.value_order import values_key

INSERT, UPSERT, DELETE, KEY_VIOLATION = "insert", "upsert", "delete", "key_violation"


class KeyChange(NamedTuple):
    """The change of a key. ``before`` and ``after`` are whole rows; ``None`` if there is no such row."""

    state: str
    key: RowValues
    before: RowValues | None
    after: RowValues | None


_CLEAN: Final = {(1,): INSERT, (-1,): DELETE, (-1, 1): UPSERT}


class KeyedRows:
    """Makes the rows of the keys that have updates at a timestamp, in the order of the keys, NULLs last."""

    __slots__ = ("_shape",)

    def __init__(self, shape: OutputShape) -> None:
        self._shape = shape

    def rows(self, updates: Iterable[Update]) -> list[RowValues]:
        """Return the rows ``(mz_state, *key, *values)`` of consolidated updates of one timestamp."""
        groups = keyed_groups(updates, self._shape.key)
        return [row for key, group in groups for row in shown(key_change(key, group), self._shape)]


def keyed_groups(updates: Iterable[Update], key: tuple[int, ...]) -> list[tuple[RowValues, list[Update]]]:
    """Return the updates of each key, in the order of the keys. NULL is equal to NULL in a key.

    A key whose updates write it differently, as 1 and 1.0, is shown as ``first_spelled`` says.
    """
    groups: dict[Hashable, tuple[RowValues, list[Update]]] = {}
    for update in updates:
        values = tuple([update.row[at] for at in key])
        identity = row_identity(values)
        known, of_key = groups.setdefault(identity, (values, []))
        of_key.append(update)
        # Texts, whole numbers, bytes and NULLs that are equal are written alike.
        if identity is not values or [*map(type, known)] != [*map(type, values)]:
            groups[identity] = first_spelled(known, values), of_key
    return sorted(groups.values(), key=lambda group: values_key(group[0]))


def key_change(key: RowValues, updates: list[Update]) -> KeyChange:
    """Return the change that its updates make to a key, as the table of this module says."""
    ordered = sorted(updates, key=lambda update: update.diff)
    state = _CLEAN.get(tuple(update.diff for update in ordered), KEY_VIOLATION)
    before = ordered[0].row if state in (DELETE, UPSERT) else None
    after = ordered[-1].row if state in (INSERT, UPSERT) else None
    return KeyChange(state, key, before, after)


def shown(change: KeyChange, shape: OutputShape) -> list[RowValues]:
    """Return the output row of a change, or two rows if the key is written differently after the change."""
    before, after = change.before, change.after
    if before is not None and after is not None:
        old, new = (tuple([row[at] for at in shape.key]) for row in (before, after))
        if written_identity(old) != written_identity(new):
            changes = KeyChange(DELETE, old, before, None), KeyChange(INSERT, new, None, after)
            return [_shown(each, shape) for each in changes]
    return [_shown(change, shape)]


def _shown(change: KeyChange, shape: OutputShape) -> RowValues:
    """Return the output row of a change. With UPSERT an insert has the state ``upsert`` too."""
    nothing = (None,) * len(shape.rest)
    before, after = (
        nothing if row is None else tuple(row[at] for at in shape.rest)
        for row in (change.before, change.after)
    )
    if shape.mode is OutputMode.DEBEZIUM:
        return (change.state, *change.key, *before, *after)
    state = UPSERT if change.state == INSERT else change.state
    return (state, *change.key, *after)
