"""The fuzzers can fail: of each kind of finding a defect is put into the code on purpose, and is found."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from tests.fuzz import trial
from tests.fuzz.__main__ import main
from tests.fuzz.campaign import Account, Budget, run
from tests.fuzz.mutators import damaged
from tests.fuzz.parts import joined, parted
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS, log_bytes, messages
from tests.fuzz.trial import Finding, attempt
from tests.unit.processor.driving import Driven
from tidegate.changefeed.lifecycle.control import read_control_record
from tidegate.errors import ForeignRecord, MalformedEntry
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.raftlog.decode import decode_entry

SEED: Final = 16


class _Heard(Exception):
    """The end of a search: the finding was found, and the inputs behind it need not be tried."""


def _is_found(what: str, name: str, inputs: int) -> bool:
    """Whether one of the first ``inputs`` of the target has a finding that says so."""

    def heard(finding: Finding) -> None:
        if what in finding.what:
            raise _Heard

    try:
        run([TARGETS[name]], SEED, Budget(inputs=inputs), heard)
    except _Heard:
        return True
    return False


def test_an_exception_that_has_no_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(key: bytes | None, value: bytes | None) -> object:
        if value is not None and value[-1:] == b"\xfe":
            raise IndexError("planted")
        return decode_entry(key, value)

    monkeypatch.setattr(log_bytes, "decode_entry", decode)
    assert _is_found("IndexError: 'planted'", "entries", 5_000)


def test_a_long_sentence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(key: bytes | None, value: bytes | None) -> object:
        try:
            return decode_entry(key, value)
        except MalformedEntry as error:
            raise MalformedEntry(f"{error}: {value!r}") from None

    monkeypatch.setattr(log_bytes, "decode_entry", decode)
    assert _is_found("the sentence of a MalformedEntry has", "entries", 3_000)


def test_a_sentence_that_has_no_bytes_is_found() -> None:
    def run(_: bytes) -> None:
        raise ForeignRecord("\ud800")

    found = attempt(Target("t", lambda _: b"", run, (ForeignRecord,)), b"")
    assert found is not None
    assert "UnicodeEncodeError" in found.what


def test_what_is_written_and_read_again_as_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(key: bytes | None, value: bytes | None) -> Any:
        entry: Any = decode_entry(key, value)
        return entry._replace(generation=entry.generation + 1) if hasattr(entry, "generation") else entry

    monkeypatch.setattr(log_bytes, "decode_entry", decode)
    assert _is_found("is another one once it is written", "entries", 200)


def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 1_000, 5))
    monkeypatch.setattr(trial, "process_time", lambda: next(seconds))
    found = attempt(Target("t", lambda _: b"", lambda _: None, ()), b"x")
    assert found is not None
    assert found.what == "1 bytes took 5.0 s of processor time, and 1.0 s are allowed"


def test_an_input_that_takes_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: bytes) -> object:
        while True:
            pass

    monkeypatch.setattr(trial, "_GIVEN_UP", 0.2)
    found = attempt(Target("endless", lambda _: b"x", run, ()), b"x")
    assert found is not None
    assert "1 bytes took more than 0 s of processor time, and were given up" in found.what
    assert "test_oracles.py:" in found.what


def test_an_exception_in_the_step_of_a_partition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    learn = PartitionRows.learn

    def planted(self: PartitionRows, update: Any, *place: Any, **more: Any) -> None:
        if update.descriptor[-1:] == b"\xff":
            raise LookupError("planted")
        learn(self, update, *place, **more)

    monkeypatch.setattr(PartitionRows, "learn", planted)
    assert _is_found("which is a defect: LookupError", "steps", 1_500)


def test_other_rows_of_a_healthy_feed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record after a damaged one is lost."""
    run_all = Driven.run

    def planted(self: Driven, records: Any, batch: int = 1) -> Any:
        damaged_ones = [
            at for at, record in enumerate(records) if record.value and b"\xff\xff" in record.value
        ]
        return run_all(self, records[: damaged_ones[0]] if damaged_ones else records, batch)

    monkeypatch.setattr(Driven, "run", planted)
    assert _is_found("is given other rows", "steps", 200)


def test_a_message_that_ends_its_reader_is_found() -> None:
    def read(key: bytes | None, value: bytes) -> object:
        if b'"start":' in value and b"null" in value:
            raise TypeError("planted")
        return read_control_record(key, value)

    target = TARGETS["control"]
    planted = Target("control", target.draw, messages._read_with(read), target.named)
    (account,) = run([planted], SEED, Budget(inputs=5_000))
    assert [found.signature[1] for found in account.findings.values()] == ["TypeError"]


# ---- seeds and files ----


def _inputs(name: str, seed: int) -> list[bytes]:
    chance = Random(f"{seed}/{name}")
    return [TARGETS[name].draw(chance) for _ in range(20)]


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_follow_from_the_seed(name: str) -> None:
    assert _inputs(name, 1) == _inputs(name, 1) != _inputs(name, 2)


def test_a_target_has_the_same_inputs_whatever_others_take() -> None:
    def of(accounts: list[Account]) -> list[float]:
        return [account.chance.random() for account in accounts if account.target.name == "requests"]

    alone = run([TARGETS["requests"]], SEED, Budget(inputs=30))
    among = run([TARGETS["cursors"], TARGETS["requests"]], SEED, Budget(inputs=30))
    assert of(alone) == of(among)


def test_parts_come_back_and_any_bytes_are_parts() -> None:
    parts = [b"", None, b"abc", None]
    assert list(parted(joined(parts))) == parts
    chance = Random(SEED)
    for _ in range(200):
        list(parted(damaged(chance, joined(parts))))


def test_a_finding_is_stored_and_is_found_again_from_its_file(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def decode(key: bytes | None, value: bytes | None) -> object:
        raise IndexError("planted")

    arguments = ["--target", "entries", "--seed", "5", "--inputs", "3", "--findings", str(tmp_path)]
    assert main(arguments) == 0
    monkeypatch.setattr(log_bytes, "decode_entry", decode)
    assert main(arguments) == 1
    (stored,) = tmp_path.iterdir()
    assert f"python -m tests.fuzz --target entries --input {stored}" in capsys.readouterr().out
    assert main(["--target", "entries", "--input", str(stored)]) == 1
    monkeypatch.undo()
    assert main(["--target", "entries", "--input", str(stored)]) == 0
