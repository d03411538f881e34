"""A server of this process, with a real one that starts in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.errors import ServerFailed
from stack.ports import accepts_connections
from stack.processes.owned import OwnedServer
from tests.unit.stack.toy import Toy, comes_to_answer


def owned(data: Path | None = None, **settings: str) -> OwnedServer:
    return OwnedServer(Toy(), port=None, data=data, settings=settings)


@pytest.fixture
def server() -> Iterator[OwnedServer]:
    with owned() as running:
        yield running


def test_it_is_up_for_as_long_as_it_is_wanted() -> None:
    with owned() as server:
        assert comes_to_answer(server.address)
    assert not accepts_connections(server.address)


@pytest.mark.parametrize("end", [OwnedServer.stop, OwnedServer.kill])
def test_it_comes_back_at_the_same_address_as_another_process(server: OwnedServer, end: object) -> None:
    address, pid = server.address, server.pid
    assert callable(end)
    end(server)
    assert not accepts_connections(address)
    server.start()
    assert comes_to_answer(address)
    assert server.address == address
    assert server.pid != pid


def test_starting_what_runs_changes_nothing(server: OwnedServer) -> None:
    assert server.start().pid == server.start().pid


def test_a_frozen_one_answers_once_it_goes_on(server: OwnedServer) -> None:
    server.pause()
    assert not Toy().answers(server.address)
    server.resume()
    assert comes_to_answer(server.address)


def test_what_does_not_run_cannot_be_frozen(server: OwnedServer) -> None:
    server.stop()
    with pytest.raises(ServerFailed, match=r"The toy of 127\.0\.0\.1:\d+ is not running; start\(\) it first"):
        server.pause()


def test_close_removes_only_what_it_made(tmp_path: Path) -> None:
    with owned(tmp_path / "mine") as server:
        home = server.log.parent
    assert not home.exists()
    assert (tmp_path / "mine").is_dir()


def test_a_server_that_cannot_start_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerFailed, match="the reason why"), owned(mode="fail"):
        pass
    assert not list(tmp_path.glob("tidegate-toy-*"))
