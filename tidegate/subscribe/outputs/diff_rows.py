"""Rows of one timestamp as diffs: ``(mz_diff, *columns)``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.shape import DIFF_POSITION, OutputShape, RowOrder
from tidegate.subscribe.query.column_values import Read, order_reader
from tidegate.subscribe.updates.row_identity import Spelling
from tidegate.subscribe.updates.update import RowValues, Update
from tidegate.subscribe.updates.value_order import SortKey, values_key


class DiffRows:
    """Puts the updates of one timestamp in order; the order does not depend on how they arrived."""

    __slots__ = ("_dialect", "_order_by")

    def __init__(self, shape: OutputShape, dialect: Dialect) -> None:
        self._order_by = [(item, order_reader(item.type)) for item in shape.order_by]
        self._dialect = dialect

    def rows(self, updates: Iterable[Update]) -> list[RowValues]:
        """Return the rows of consolidated updates of one timestamp."""
        ties = _by_values if self._dialect is Dialect.MATERIALIZE else _retractions_first
        in_order = sorted(updates, key=ties)
        for item, read in reversed(self._order_by):  # sorting is stable: what counts most is sorted by last
            in_order.sort(key=partial(_key, item, read), reverse=item.order.descending)
        return [(update.diff, *update.row) for update in in_order]


def _key(item: RowOrder, read: Read | None, update: Update) -> SortKey:
    value = update.diff if item.position == DIFF_POSITION else update.row[item.position]
    return item.order.key(value if read is None or value is None else read(value))


def _by_values(update: Update) -> SortKey:
    return (values_key(update.row), update.diff, Spelling(update.row))


def _retractions_first(update: Update) -> SortKey:
    return (update.diff > 0, values_key(update.row), update.diff, Spelling(update.row))
