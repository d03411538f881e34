"""The order of the rows in a batch of columns: by timestamp, then as SQL orders values, NULLs last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.subscribe.gate.row_chunk import IntColumn, Mask


def order_of(first: Sequence[IntColumn], arrays: Iterable[pa.Array]) -> IntColumn | None:
    """Return the positions of rows in their order.

    Rows are ordered by the columns of numbers in ``first``, the first one most significant. Rows with equal
    numbers are ordered by ``arrays``. An array is only looked at if the columns before it leave rows equal.

    ``None`` if the arrays do not tell the order: two rows are equal in all of them, or equal up to an array
    of floats, in which different numbers may be rounded to one.
    """
    keys = list(first)
    order: IntColumn = np.lexsort(keys[::-1])
    equal = _equal_neighbours(keys, order)
    left = iter(arrays)
    while equal.any():
        array = next(left, None)
        if array is None or pa.types.is_floating(array.type):
            return None  # two numbers of the rows may be one number here
        keys.append(_ranks(array))
        order = np.lexsort(keys[::-1])
        equal = _equal_neighbours(keys, order)
    return order


def _equal_neighbours(keys: Sequence[IntColumn], order: IntColumn) -> Mask:
    """Return for each row except the first, in ``order``, whether it has the same keys as the row before
    it."""
    equal: Mask = np.ones(max(len(order) - 1, 0), np.bool_)
    for each in keys:
        ordered = each[order]
        equal &= ordered[1:] == ordered[:-1]
    return equal


def _ranks(array: pa.Array) -> IntColumn:
    """Return a number for each value. Numbers have the order of the values; equal values have the same
    number."""
    if pa.types.is_int64(array.type) and not array.null_count:
        numbers: IntColumn = array.to_numpy()
        return numbers
    ranks: IntColumn = pc.rank(array, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks
