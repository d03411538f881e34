from __future__ import annotations

from pathlib import Path

import pytest

from stack.errors import StackError
from stack.identity import ProcessIdentity
from stack.record import RunRecord

RECORD = RunRecord(
    name="kafka",
    process=ProcessIdentity(4711, "123456", "java kafka.Kafka"),
    address="127.0.0.1:20000",
    log=Path("/logs/server.log"),
    data=Path("/data"),
    started_at=1700000000.5,
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    RECORD.save(tmp_path / "made" / "server.json")
    assert RunRecord.load(tmp_path / "made" / "server.json") == RECORD


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert RunRecord.load(tmp_path / "server.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"process": {"pid": 1}}', '{"process": 3}'])
def test_a_file_that_is_no_record_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(text)
    with pytest.raises(StackError, match=rf"{path} is not a record .* delete the file"):
        RunRecord.load(path)
