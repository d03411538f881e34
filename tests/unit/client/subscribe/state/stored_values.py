"""Values of rows as strategies, and their form: what has to come back from a disk."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any, Final

from hypothesis import strategies as st

_OFFSETS: Final = st.integers(-1439, 1439).map(
    lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))
)
_TEXTS: Final = st.text(st.characters(), max_size=8) | st.sampled_from(["\ud800", "\ud83d\ude00", "x" * 300])
PLAIN: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**2_000), 2**2_000),
    st.floats(),
    st.decimals(),
    st.sampled_from([Decimal("1.10"), Decimal("1.1"), Decimal("-0"), Decimal("1E+400"), 1, True, 1.0]),
    _TEXTS,
    st.binary(max_size=200),
    st.dates(),
    st.times(timezones=st.none() | _OFFSETS),
    st.datetimes(timezones=st.none() | _OFFSETS),
    st.uuids(),
)
VALUES: Final = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
ROWS: Final = st.lists(VALUES, max_size=6).map(tuple)


def form_of(value: Any) -> Any:
    """Return what makes a value itself: its type, and what equality passes over."""
    if isinstance(value, list | tuple):
        return type(value), [form_of(each) for each in value]
    if isinstance(value, dict):
        return dict, [(name, form_of(member)) for name, member in value.items()]
    if isinstance(value, float):
        return float, struct.pack(">d", value)
    if isinstance(value, Decimal):
        return Decimal, value.as_tuple()
    if isinstance(value, datetime.datetime | datetime.time):
        return type(value), value.isoformat()
    return type(value), value
