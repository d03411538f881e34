"""Lines of CSV are read as Python's own reader reads them, and fields of any length too."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import INT, STRING, row, table
from tidegate.changefeed.definition.options import FeedOptions, Format, InitialScan
from tidegate.changefeed.encoding.csv_line import csv_fields
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import Timestamp

CSV: Final = FeedOptions(format=Format.CSV, initial_scan=InitialScan.ONLY)
#: What Python's reader takes in one field.
_FIELD: Final = 131_072
_TABLE: Final = table("t", {"id": INT, "a": STRING, "b": STRING}, key=("id",))


@contextmanager
def _any_length() -> Iterator[None]:
    limit = csv.field_size_limit(10**9)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _read_by_python(line: str) -> list[str] | None:
    """``None`` if it is no line."""
    try:
        with _any_length():
            (fields,) = csv.reader([line], strict=True)
    except (csv.Error, ValueError):
        return None
    return fields


def _read(line: str) -> list[str] | None:
    try:
        return csv_fields(line)
    except ValueError:
        return None


@given(st.text(alphabet=',"ab \r\n\\', min_size=1).filter(lambda line: line.strip("\r\n")))
def test_any_line_is_read_as_python_reads_it(line: str) -> None:
    assert _read(line) == _read_by_python(line)


_PIECES: Final = st.sampled_from(['"', '""', ",", "\n", "\r\n", "\u00e9", "NULL", "\\.", " ", "x" * 1_000])
_LONG: Final = st.builds(
    lambda pieces, count: "".join(pieces) * count, st.lists(_PIECES, max_size=6), st.integers(0, 1_500)
)


@given(_LONG, _LONG)
def test_a_row_of_long_strings_is_read_back(first: str, second: str) -> None:
    key, value = compile_encoder(_TABLE, CSV).encode(row(_TABLE, id=1, a=first, b=second), Timestamp(1))
    assert value is not None
    assert decoder_for(CSV).decode(key, value) == RowRecord(
        (), {"1": "1", "2": first, "3": second}, deleted=False
    )
    assert _read_by_python(value.decode()) == ["1", first, second]


@pytest.mark.parametrize("text", ["x", '"', ",", "\n"])
def test_a_field_that_pythons_reader_refuses_is_read(text: str) -> None:
    long = text * (_FIELD + 1)
    key, value = compile_encoder(_TABLE, CSV).encode(row(_TABLE, id=1, a=long, b=""), Timestamp(1))
    assert value is not None
    with pytest.raises(csv.Error, match="field larger than field limit"):
        next(csv.reader([value.decode()], strict=True))
    assert decoder_for(CSV).decode(key, value) == RowRecord((), {"1": "1", "2": long, "3": ""}, deleted=False)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('1,"a', "a quote is not closed"),
        ('"a""', "a quote is not closed"),
        ('"a"b,1', "a comma is expected after the closing quote of a field, not 'b'"),
        ("a\nb,1", "a line ends outside of quotes"),
    ],
)
def test_what_is_no_line_is_refused_with_its_reason(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        csv_fields(line)
