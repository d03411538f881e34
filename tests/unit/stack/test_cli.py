from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stack import cli as command_line
from stack.background import down
from stack.cli import _duration, cli
from stack.errors import StackError
from tests.unit.stack.toy import Toy


@pytest.fixture(autouse=True)
def toy_is_known(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for command in (cli.commands["up"], cli.commands["down"]):
        monkeypatch.setattr(command.params[0].type, "choices", ["kafka", "toy"])
    yield
    down("toy")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_up_prints_where_everything_is() -> None:
    done = run("up", "toy")
    assert done.exit_code == 0
    first, log, data = done.output.splitlines()
    assert first.startswith("toy is up at 127.0.0.1:")
    assert log.endswith("run/toy/server.log")
    assert data.endswith("run/toy/data")


def test_up_when_up_says_so_and_succeeds() -> None:
    run("up", "toy")
    done = run("up", "toy")
    assert done.exit_code == 0
    assert "toy is already up at 127.0.0.1:" in done.output


@pytest.mark.parametrize("asked", [("--fresh",), ("--port", "1"), ("--set", "mode=serve")], ids=" ".join)
def test_up_when_up_does_not_claim_to_have_done_what_was_asked_for(asked: tuple[str, ...]) -> None:
    run("up", "toy")
    done = run("up", "toy", *asked)
    assert isinstance(done.exception, StackError)
    assert "run `down toy` first" in str(done.exception)
    assert done.output == ""


def test_status_shows_health_and_uptime() -> None:
    assert run("status").output == "Nothing is up.\n"
    run("up", "toy")
    name, address, pid, uptime, health = run("status").output.strip().split("  ")
    assert (name, health) == ("toy", "healthy")
    assert pid.startswith("pid ")
    assert uptime.startswith("up 0m")
    assert address in run("up", "toy").output


@pytest.mark.parametrize("which", [["toy"], []])
def test_down_stops_one_or_all(which: list[str]) -> None:
    run("up", "toy")
    assert "is down; its data stay in" in run("down", *which).output
    assert run("status").output == "Nothing is up.\n"


def test_down_when_down_says_so_and_succeeds() -> None:
    assert (run("down", "toy").exit_code, run("down", "toy").output) == (0, "toy is not up.\n")
    assert run("down").output == "Nothing is up.\n"


def test_an_unknown_server_is_refused_with_the_known_ones() -> None:
    done = run("up", "redis")
    assert done.exit_code == 2
    assert "'kafka', 'toy'" in done.output


def test_a_setting_without_a_value_is_refused() -> None:
    done = run("up", "toy", "--set", "mode")
    assert done.exit_code == 2
    assert "'mode' is not of the form KEY=VALUE" in done.output


def test_an_expected_failure_is_a_sentence_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["stack", "up", "toy", "--set", "mode=fail"])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("Error: toy ended with status 1 while it was starting.")


def test_a_directory_that_cannot_be_used_is_a_sentence_and_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["stack", "up", "toy", "--data", str(tmp_path / "file" / "data")])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"Error: The stack cannot use {tmp_path}/file/data: Not a dir")


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0m00s"), (61, "1m01s"), (3661, "1h01m")])
def test_uptime_is_short(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
