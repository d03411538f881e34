"""``tidegate sim run``: what its options make of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sim.control
import sim.run
from sim.options import StoreOptions
from tests.unit.cli.running import run
from tidegate.cli.sim import sim as command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[StoreOptions]:
    """The stores that the command would run; none of them is."""
    stores: list[StoreOptions] = []

    def note(options: Any, _: object) -> None:
        stores.append(options.store)

    monkeypatch.setattr(sim.run, "run", note)
    return stores


def test_without_options_the_store_is_the_default_one(started: list[StoreOptions]) -> None:
    assert CliRunner().invoke(command, ["run"]).exit_code == 0
    assert started == [StoreOptions()]


def test_options_of_ranges_are_given_in_seconds_and_numbers(started: list[StoreOptions]) -> None:
    options = (
        "--split-every 2 --merge-every 0.5 --split-bytes 1000 --split-rate 2.5 --gc-ttl 60 --batch-values 0.1"
    )
    result = CliRunner().invoke(command, ["run", "--rate", "5", *options.split()])
    assert result.exit_code == 0, result.output
    assert started == [
        StoreOptions(
            write_rate=5,
            split_every_ms=2_000,
            merge_every_ms=500,
            split_bytes=1_000,
            split_rate=2.5,
            gc_ttl_ms=60_000,
            batch_values_fraction=0.1,
        )
    ]


@pytest.mark.parametrize("option", ["--split-every", "--split-bytes", "--gc-ttl", "--batch-values", "--rate"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_numbers_that_no_store_can_reckon_with_are_refused(
    started: list[StoreOptions], option: str, value: str
) -> None:
    result = CliRunner().invoke(command, ["run", option, value])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output
    assert started == []


def test_a_key_that_is_not_hexadecimal_is_refused() -> None:
    result = CliRunner().invoke(command, ["split", "1", "--key", "zz"])
    assert result.exit_code == 2
    assert "hexadecimal" in result.output


@pytest.mark.parametrize("name", ["split", "merge"])
def test_a_store_that_is_asked_is_that_of_the_brokers_that_were_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim.control, "_TIMEOUT_S", 0.1)
    result = run("sim", name, "1", "-b", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("Kafka at 127.0.0.1:1 does not answer")


def test_servers_that_are_no_utf8_are_a_sentence() -> None:
    for command_line in (("run",), ("split", "1"), ("merge", "1")):
        result = run("sim", *command_line, "-b", "kafka\udcff:9092")
        assert result.exit_code == 1
        assert result.stderr.startswith("The Kafka setting bootstrap_servers has a byte that is no UTF-8")


def test_a_history_of_an_earlier_run_is_not_emptied(started: list[StoreOptions], tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_bytes(b"of the first run")
    result = CliRunner().invoke(command, ["run", "--history", str(file)])
    assert result.exit_code == 2
    assert f"{file} is there and not empty" in result.output
    assert (file.read_bytes(), started) == (b"of the first run", [])


def test_a_history_whose_directory_cannot_be_made_is_a_sentence(
    started: list[StoreOptions], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(command, ["run", "--history", str(tmp_path / "file" / "history")])
    assert result.exit_code == 2
    assert "its directory cannot be made" in result.output
    assert started == []


@pytest.mark.parametrize("prefix", ["a\udcff", "a b", "a/b", "ä", "a" * 201])
def test_a_prefix_that_no_topic_can_have_is_refused(prefix: str) -> None:
    for command_line in (("run",), ("split", "1"), ("merge", "1")):
        result = run("sim", *command_line, "-b", "kafka:9092", "--topic-prefix", prefix)
        assert result.exit_code == 2
        assert "topics are named with it" in result.stderr


def test_a_history_goes_to_a_file_that_is_new_or_empty(started: list[StoreOptions], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "new", "directory/new"):
        result = CliRunner().invoke(command, ["run", "--history", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    assert len(started) == 3
