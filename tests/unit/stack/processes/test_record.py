from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from stack.errors import StackError
from stack.processes.identity import ProcessIdentity
from stack.processes.record import RunRecord

RECORD = RunRecord(
    name="kafka",
    process=ProcessIdentity(4711, "123456", "java kafka.Kafka"),
    address="127.0.0.1:20000",
    log=Path("/logs/server.log"),
    data=Path("/data"),
    started_at=1700000000.5,
    stop_signal=signal.SIGINT,
    settings={"fsync": "on"},
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    RECORD.save(tmp_path / "made" / "server.json")
    assert RunRecord.load(tmp_path / "made" / "server.json") == RECORD


def test_a_record_of_an_earlier_version_is_of_a_server_without_settings_that_takes_the_usual_signal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "server.json"
    RECORD.save(path)
    fields = json.loads(path.read_text())
    del fields["stop_signal"], fields["settings"]
    path.write_text(json.dumps(fields))
    found = RunRecord.load(path)
    assert found is not None
    assert (found.stop_signal, found.settings) == (signal.SIGTERM, None)


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert RunRecord.load(tmp_path / "server.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"process": {"pid": 1}}', '{"process": 3}'])
def test_a_file_that_is_no_record_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.json"
    path.write_text(text)
    with pytest.raises(StackError, match=rf"{path} is not a record .* delete the file"):
        RunRecord.load(path)
