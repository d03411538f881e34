"""``tidegate debug refused``: records that were kept aside are listed, written out and decoded again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.unit.cli.running import run
from tidegate.client import decoded_again
from tidegate.client.local_files import LocalFiles
from tidegate.client.refused_records import RefusedFiles, RefusedRecords
from tidegate.processor.batch import ControlRecord, ExchangeRecord
from tidegate.processor.breaking import refused_record
from tidegate.processor.containment import Input, Unforeseen
from tidegate.processor.refused import RefusedRecord, RefusedRow, Source
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.handoff import Claim
from tidegate.rows import encode_descriptor
from tidegate.spans import Span
from tidegate.spark.changefeed.refused_files import RemoteFiles

_TABLE: Final = HandTable.of(104, "accounts")
_CAUSE: Final = Unforeseen("nobody foresaw it", "ArithmeticError (a.py, line 1)")
_TOPICS: Final = {Source.LOG: "raftlog", Source.ROW: "raftlog", Source.CONTROL: "tidegate-control"}


def _log_record() -> RefusedRecord:
    log = HandLog(partitions=1)
    log.describe(_TABLE)
    return refused_record(Input.LOG, log.partitions[0][0], _CAUSE)


def _control() -> RefusedRecord:
    feed = activation([_TABLE.descriptor], sink_uri="kafka://broker:9092?sasl_password=hunter22")
    return refused_record(Input.CONTROL, ControlRecord(Offset(3), feed), _CAUSE)


def _claim() -> RefusedRecord:
    claim = Claim(RangeId(3), RangeId(5), RaftIndex(2), Span(b"a", b"c"))
    return refused_record(Input.HAND_OFFS, ExchangeRecord(Offset(4), claim), _CAUSE)


def _row() -> RefusedRecord:
    key, value = _TABLE.pair(2, "odd")
    row = RefusedRow("bank", "17.0000000000", _TABLE.pair(2, "even")[1], encode_descriptor(_TABLE.descriptor))
    return RefusedRecord(Source.ROW, 9, 0, key, value, _CAUSE.exception, _CAUSE, row)


def _directory(root: Path) -> Path:
    return root / "tidegate" / "refused"


def _keep(files: RefusedFiles, *records: RefusedRecord) -> None:
    keeper = RefusedRecords(lambda: files, _TOPICS)
    for record in records:
        keeper.keep(2, record)


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., Any]:
    """Keeps records, and runs the command on them with the arguments."""

    def command(records: list[RefusedRecord], *arguments: str) -> Any:
        _keep(LocalFiles(_directory(tmp_path)), *records)
        return run("debug", "refused", *arguments, TIDEGATE_DATA_DIR=str(tmp_path))

    return command


def test_records_are_listed_with_their_places(kept: Callable[..., Any]) -> None:
    lines = kept([_log_record(), _row()]).output.splitlines()
    assert lines[0].split() == ["NAME", "TOPIC", "PARTITION", "OFFSET", "EXCEPTION"]
    assert "-log-2-0-" in lines[1]
    assert "ArithmeticError (a.py, line 1)" in lines[1]
    assert "-row-2-9-" in lines[2]


def test_where_nothing_is_kept_it_says_so(kept: Callable[..., Any]) -> None:
    assert kept([]).output == "No record is kept aside.\n"


@pytest.mark.parametrize(
    ("record", "decoded"),
    [
        (_log_record(), "DescriptorUpdate"),
        (_control(), "Activate"),
        (_claim(), "Claim"),
        (_row(), "odd"),
        (_row(), "even"),
    ],
)
def test_one_is_shown_as_this_version_decodes_it(
    record: RefusedRecord, decoded: str, kept: Callable[..., Any]
) -> None:
    shown = kept([record], record.source.value)
    assert shown.exit_code == 0
    assert "It is decoded, so what broke came later" in shown.output
    assert decoded in shown.output
    assert "hunter22" not in shown.output


def test_json_has_everything_but_the_feed_s_secrets(kept: Callable[..., Any]) -> None:
    record = _row()
    shown = json.loads(kept([record], "row", "--json").output)
    assert (bytes.fromhex(shown["key"]), bytes.fromhex(shown["value"])) == (record.key, record.value)
    assert (shown["feed"], shown["row_timestamp"], shown["offset"]) == ("bank", "17.0000000000", 9)
    assert [each["source"] for each in json.loads(kept([], "--json").output)] == ["row"]


def test_what_nobody_foresaw_is_shown_and_ends_nothing(
    kept: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: object) -> Any:
        raise ArithmeticError("still so")

    monkeypatch.setattr(decoded_again, "decode_entry", decode)
    shown = kept([_log_record()], "log")
    assert shown.exit_code == 0
    assert "It meets an exception that nobody foresaw" in shown.output
    assert "ArithmeticError (test_refused.py, line " in shown.output


@pytest.mark.parametrize("error", [MemoryError("too much"), RecursionError("too deep"), OSError("gone")])
def test_no_exception_of_a_decoder_ends_the_command(
    error: Exception, kept: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: object) -> Any:
        raise error

    monkeypatch.setattr(decoded_again, "decode_entry", decode)
    shown = kept([_log_record()], "log")
    assert shown.exit_code == 0
    assert str(error) in shown.output


@pytest.mark.parametrize(
    "record",
    [
        _log_record()._replace(value=b"\xff"),
        _control()._replace(value=b"{}"),
        _claim()._replace(value=b""),
        _row()._replace(value=b"\xff"),
        _row()._replace(row=RefusedRow("bank", "17.0", None, b"")),
    ],
)
def test_what_is_refused_by_name_is_shown_so(record: RefusedRecord, kept: Callable[..., Any]) -> None:
    shown = kept([record], record.source.value)
    assert shown.exit_code == 0
    assert "It is refused by name: " in shown.output


def test_one_is_written_as_it_came_for_its_user_alone(kept: Callable[..., Any], tmp_path: Path) -> None:
    record = _log_record()
    assert kept([record], "log", "--write", str(tmp_path / "out")).exit_code == 0
    files = sorted((tmp_path / "out").iterdir())
    assert [file.suffix for file in files] == [".key", ".value"]
    assert [file.read_bytes() for file in files] == [record.key, record.value]
    assert {file.stat().st_mode & 0o077 for file in files} == {0}


def test_files_of_a_directory_that_is_there_stay_and_so_do_its_rights(
    kept: Callable[..., Any], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o1777)
    (there / ".unfinished").write_text("mine")
    assert kept([_log_record()], "log", "--write", str(there)).exit_code == 0
    assert there.stat().st_mode & 0o7777 == 0o1777
    assert (there / ".unfinished").read_text() == "mine"
    again = kept([], "log", "--write", str(there))
    assert again.exit_code == 1
    assert ".key exists already" in again.stderr


def test_a_name_that_no_record_or_that_two_have_is_refused(kept: Callable[..., Any]) -> None:
    for name, sentence in (("nothing", "No record that is kept has nothing"), ("2-", "2 records have 2-")):
        shown = kept([_log_record(), _row()], name)
        assert shown.exit_code == 1
        assert sentence in shown.stderr


def test_a_damaged_file_is_listed_by_what_it_is(kept: Callable[..., Any], tmp_path: Path) -> None:
    kept([_log_record()])
    (file,) = _directory(tmp_path).iterdir()
    file.write_bytes(b"{")
    listed = kept([])
    assert listed.exit_code == 0
    assert "cannot be read" in listed.output
    assert kept([], "log").exit_code == 1


def test_those_of_a_query_are_found_by_its_checkpoint_directory(tmp_path: Path) -> None:
    _keep(RemoteFiles.of_checkpoint(tmp_path.as_uri()), _log_record())
    for place in (str(tmp_path), tmp_path.as_uri()):
        assert "-log-2-0-" in run("debug", "refused", "--checkpoint", place).output
    missing = run("debug", "refused", "--checkpoint", "nowhere://x")
    assert missing.exit_code == 1
    assert "no file system that tidegate knows" in missing.stderr
