from __future__ import annotations

import socket
from pathlib import Path

import pytest

from stack.errors import PortTaken, ServerFailed
from stack.ports import LOOPBACK
from stack.processes import launch as launching
from stack.processes.child import Child
from stack.processes.launch import launch
from stack.processes.server import Request
from tests.unit.stack.toy import Toy, comes_to_answer


class Mute(Toy):
    """Runs, and never answers."""

    def answers(self, address: str) -> bool:
        return False


def request(tmp_path: Path, mode: str = "serve") -> Request:
    return Request(tmp_path, tmp_path / "data", settings={"mode": mode})


def test_a_launched_server_answers(tmp_path: Path) -> None:
    toy = Toy()
    plan = toy.plan(request(tmp_path))
    running = launch(toy, plan, leashed=True)
    assert comes_to_answer(plan.address)
    running.stop()
    assert not toy.answers(plan.address)


def test_one_plan_can_be_run_again(tmp_path: Path) -> None:
    toy = Toy()
    plan = toy.plan(request(tmp_path))
    for runs in (1, 2):
        running = launch(toy, plan, leashed=True)
        running.stop()
        assert plan.log.read_text().count("toy starts") == runs


def test_a_server_that_dies_while_starting_shows_its_last_words(tmp_path: Path) -> None:
    toy = Toy()
    plan = toy.plan(request(tmp_path, "fail"))
    with pytest.raises(ServerFailed, match=rf"toy ended with status 1.*{plan.log}:\n.*\n    the reason why"):
        launch(toy, plan, leashed=True)


def test_a_server_that_never_answers_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "START_BOUND_S", 0.2)
    seen: list[Child] = []
    with pytest.raises(ServerFailed, match=r"did not answer at 127\.0\.0\.1:\d+ within .* and was stopped"):
        launch(Mute(), Mute().plan(request(tmp_path)), leashed=True, on_spawn=seen.append)
    assert seen[0].exit_status is not None


def test_an_interrupted_launch_leaves_no_server(tmp_path: Path) -> None:
    seen: list[Child] = []

    def interrupt(child: Child) -> None:
        seen.append(child)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(Toy(), Toy().plan(request(tmp_path)), leashed=True, on_spawn=interrupt)
    assert seen[0].exit_status is not None


def test_another_program_on_the_port_is_not_taken_for_the_server(tmp_path: Path) -> None:
    toy = Toy()
    plan = toy.plan(request(tmp_path))
    port = int(plan.address.rpartition(":")[2])
    with (
        socket.create_server((LOOPBACK, port)),
        pytest.raises(PortTaken, match=rf"another program listens at {plan.address}"),
    ):
        launch(toy, plan, leashed=True)
