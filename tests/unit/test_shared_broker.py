"""The broker of all test processes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from stack.errors import ServerFailed
from stack.kafka import KafkaBroker
from tests import shared_broker as module
from tests.shared_broker import BrokerHost, SharedBroker, directory_in_memory, shared_broker


class Counted:
    """A stand-in for a broker: who asks for one does not look at what it is."""

    running = 0
    fails = False

    data = Path()
    given: Path | None = None

    def __init__(self, data: Path | None, settings: Mapping[str, str]) -> None:
        Counted.given = data
        self.bootstrap = "127.0.0.1:9092"

    def __enter__(self) -> Counted:
        if Counted.fails:
            raise ServerFailed("no memory")
        Counted.running += 1
        return self

    def close(self) -> None:
        Counted.running -= 1


class Archive:
    """A stand-in for an archive: nobody starts with it."""

    begun = 0
    closed = 0

    def __init__(self, home: Path) -> None:
        self.file = home / "archive"

    def begin(self) -> None:
        Archive.begun += 1

    def close(self) -> None:
        Archive.closed += 1


def _ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> BrokerHost:
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"features")
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(module, "directory_in_memory", partial(directory_in_memory, memory))
    monkeypatch.setattr(Counted, "data", tmp_path)
    monkeypatch.setattr(module, "KafkaBroker", Counted)
    monkeypatch.setattr(module, "ClassArchive", Archive)
    monkeypatch.setattr(Archive, "begun", 0)
    monkeypatch.setattr(Archive, "closed", 0)
    monkeypatch.setattr(Counted, "running", 0)
    return BrokerHost(pytest.fail)


def test_the_first_who_asks_has_it_started_and_the_others_get_the_same(host: BrokerHost) -> None:
    assert Counted.running == 0
    assert {shared_broker(host.address).bootstrap for _ in range(3)} == {"127.0.0.1:9092"}
    assert (Counted.running, Archive.begun) == (1, 1)
    host.close()
    assert (Counted.running, Archive.closed) == (0, 1)


def test_its_data_are_in_memory_and_end_with_it(host: BrokerHost, tmp_path: Path) -> None:
    shared_broker(host.address)
    assert Counted.given is not None
    assert Counted.given.parent.parent == tmp_path / "memory"
    assert Counted.given.parent.exists()
    host.close()
    assert not list((tmp_path / "memory").iterdir())


def test_what_it_was_formatted_with_is_there_for_others_once_it_runs(host: BrokerHost) -> None:
    assert not host.checkpoint.exists()
    shared_broker(host.address)
    assert host.checkpoint.read_bytes() == b"features"
    host.close()
    assert not host.checkpoint.exists()


def test_whom_nobody_asked_has_nothing_to_stop(host: BrokerHost) -> None:
    host.close()
    assert (Counted.running, Archive.begun) == (0, 0)
    with pytest.raises(OSError):  # noqa: PT011 - which one is the system's affair
        Client(host.address, "AF_UNIX")


def test_who_asks_is_told_why_it_does_not_start(host: BrokerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "fails", True)
    with pytest.raises(ServerFailed, match="no memory"):
        shared_broker(host.address)
    monkeypatch.setattr(Counted, "fails", False)
    assert shared_broker(host.address).bootstrap
    host.close()


def test_data_in_memory_go_with_the_run_and_those_of_a_killed_run_with_the_next(tmp_path: Path) -> None:
    left, other = tmp_path / f"tidegate-tests-{_ended_process()}-x", tmp_path / "others"
    for path in (left, other):
        (path / "data").mkdir(parents=True)
    first, second = directory_in_memory(tmp_path), directory_in_memory(tmp_path)
    assert first is not None
    assert second is not None
    assert {str(path) for path in tmp_path.iterdir()} == {str(other), first.name, second.name}
    first.cleanup()
    second.cleanup()
    assert list(tmp_path.iterdir()) == [other]


def test_a_machine_without_such_a_place_or_room_there_keeps_data_on_its_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert directory_in_memory(tmp_path / "none") is None
    monkeypatch.setattr(module, "_MEMORY_BYTES", 1 << 62)
    assert directory_in_memory(tmp_path) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["start", "stop", "kill", "pause", "resume", "close"])
def test_it_is_not_for_one_test_to_end(name: str) -> None:
    broker: KafkaBroker = SharedBroker("127.0.0.1:9092")
    with pytest.raises(AttributeError, match="start a KafkaBroker of your own"):
        getattr(broker, name)()
