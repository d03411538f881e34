"""The stored form of records that are kept aside."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tidegate.errors import InputError
from tidegate.processor.refused import RefusedRecord, RefusedRow, Source

_LOG: Final = RefusedRecord(Source.LOG, 7, 1_700, b"key", b"\xff\x00", "ArithmeticError", "it was odd")
_ROW: Final = RefusedRow("bank", "17.0", b"before", b"descriptor")
_RECORDS: Final = {
    "a record": (_LOG, 5),
    "a tombstone": (_LOG._replace(value=None), 3),
    "a message that cannot be encoded": (_LOG._replace(source=Source.CONTROL, key=None, value=None), 0),
    "a row": (_LOG._replace(source=Source.ROW, row=_ROW), 5 + 6 + 10),
    "a new row": (_LOG._replace(source=Source.ROW, row=_ROW._replace(previous=None)), 5 + 10),
    "a row of no table": (_LOG._replace(source=Source.ROW, row=_ROW._replace(descriptor=b"")), 5 + 6),
}


@pytest.mark.parametrize(("record", "size"), _RECORDS.values(), ids=_RECORDS)
def test_a_record_is_read_as_it_was_written_and_its_size_is_that_of_its_bytes(
    record: RefusedRecord, size: int
) -> None:
    assert RefusedRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert record.size == size


_BAD: Final[dict[str, Any]] = {
    "no object": [],
    "another version": {**_LOG.to_json(), "v": 2},
    "no version": {name: value for name, value in _LOG.to_json().items() if name != "v"},
    "an unknown source": {**_LOG.to_json(), "source": "elsewhere"},
    "no base 64": {**_LOG.to_json(), "value": "/w*=="},
    "a row that lacks a part": {**_LOG.to_json(), "row": ["bank", "17.0", None]},
}


@pytest.mark.parametrize("stored", _BAD.values(), ids=_BAD)
def test_anything_else_is_refused(stored: Any) -> None:
    with pytest.raises(InputError, match="no record that was kept aside"):
        RefusedRecord.from_json(stored)


def test_members_of_a_later_version_are_passed_over() -> None:
    assert RefusedRecord.from_json({**_LOG.to_json(), "host": "a"}) == _LOG
