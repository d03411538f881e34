"""Records of internal topics whose reading nobody foresaw are told as foreign, and passed over (U1)."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

from tests.logs import Record
from tidegate.client.foreign_records import foreign
from tidegate.errors import ForeignRecord, StateError
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.foreign_records import own_records

_BATCH: Final = FetchedBatch(
    "bank-control", 2, 0, 2, 2, [Record(0, b"", b"odd", 0), Record(1, b"", b"well", 0)]
)


def _read(_: bytes | None, value: bytes) -> bytes:
    if value == b"odd":
        raise ArithmeticError("nobody foresaw it")
    return value


def test_such_a_record_is_told_and_the_next_one_is_read(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        found = [value for _, value in own_records(_BATCH, _read)]
    assert found == [b"well"]
    assert "bank-control[2] at offset 0 is passed over: " in caplog.text
    assert "ArithmeticError (test_foreign_records.py, line " in caplog.text


@pytest.mark.parametrize("error", [StateError("it is of a newer version"), MemoryError(), OSError("no disk")])
def test_what_is_no_fault_of_the_record_ends_the_process(error: Exception) -> None:
    def read(*_: object) -> Any:
        raise error

    with pytest.raises(type(error)):
        list(own_records(_BATCH, read))


def test_a_foreign_record_is_told_as_it_is() -> None:
    found = ForeignRecord("tidegate did not write it")
    assert foreign(found) is found
