"""`up`, `status` and `down`, with a real server that starts in milliseconds."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from stack import background
from stack.background import down, status, up
from stack.errors import PortTaken, ServerFailed, StackError
from stack.places import run_dir
from stack.ports import choose_port, host_and_port
from stack.processes.identity import ProcessIdentity
from stack.processes.record import RunRecord
from stack.processes.server import Request, ServerPlan
from stack.recipes import catalogue as recipes
from tests.unit.stack.toy import Toy, comes_to_answer

RECORD = "toy/server.json"


@pytest.fixture(autouse=True)
def nothing_stays_up(toy: Toy) -> Iterator[None]:
    yield
    down("toy")


def reap(record: RunRecord) -> None:
    """Wait for the process: in a real run `up` has exited and init does this."""
    os.waitpid(record.process.pid, 0)


def test_a_server_that_is_up_answers_and_is_listed() -> None:
    record, already = up("toy")
    assert not already
    assert comes_to_answer(record.address)
    assert [(health.record, health.answers) for health in status()] == [(record, True)]


def test_a_server_is_told_where_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    first = up("toy").record.address
    told: list[Mapping[str, str]] = []

    class Needy(Toy):
        name = "needy"

        def plan(self, request: Request) -> ServerPlan:
            told.append(request.running)
            raise StackError("enough")

    monkeypatch.setitem(recipes.RECIPES, "needy", Needy())
    with pytest.raises(StackError, match="enough"):
        up("needy")
    assert told == [{"toy": first}]


def test_up_when_up_changes_nothing(tmp_path: Path) -> None:
    first = up("toy", data=tmp_path / "data", settings={"mode": "hang", "stop": "SIGINT"})
    port = host_and_port(first.record.address)[1]
    for second in (
        up("toy"),
        up("toy", port=port, data=tmp_path / "none" / ".." / "data", settings={"mode": "hang"}),
    ):
        assert second.already
        assert second.record == first.record


def test_settings_of_a_server_that_an_earlier_version_started_are_not_known() -> None:
    up("toy", settings={"stop": "SIGINT"})
    path = background._record_path("toy")
    fields = json.loads(path.read_text())
    del fields["settings"]
    path.write_text(json.dumps(fields))
    again = up("toy", settings={"stop": "SIGINT"})
    assert again.already
    assert again.record.settings is None


def test_up_when_up_otherwise_than_asked_for_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    first = up("toy", settings={"stop": "SIGINT"})
    (first.record.data / "kept").touch()
    for asked, said in (
        ({"fresh": True}, rf"its data in {first.record.data} were not emptied"),
        ({"port": choose_port()}, r"listens at port \d+ and not at \d+"),
        ({"data": tmp_path / "else"}, rf"has its data in {first.record.data} and not in {tmp_path}/else"),
        ({"settings": {"stop": "SIGTERM"}}, r"was not started with this value of stop"),
        ({"settings": {"stop": "SIGINT", "mode": "serve"}}, r"was not started with this value of mode"),
    ):
        with pytest.raises(StackError, match=rf"^toy is up, and {said}: run `down toy` first\.$"):
            up("toy", **asked)
    assert (first.record.data / "kept").exists()
    assert up("toy").record == first.record


def test_two_at_once_start_one_server() -> None:
    with ThreadPoolExecutor(2) as both:
        started = list(both.map(lambda _: up("toy"), range(2)))
    assert sorted(each.already for each in started) == [False, True]
    assert started[0].record == started[1].record


def test_down_stops_it() -> None:
    record = up("toy").record
    assert down("toy") == record
    assert not record.process.alive()
    assert status() == []


def test_down_when_down_says_so() -> None:
    assert down("toy") is None


def test_data_stay_unless_they_are_to_be_fresh() -> None:
    data = up("toy").record.data
    (data / "kept").touch()
    down("toy")
    assert (up("toy").record.data / "kept").exists()
    down("toy")
    assert not (up("toy", fresh=True).record.data / "kept").exists()


def test_data_that_cannot_be_emptied_are_an_error(tmp_path: Path) -> None:
    data = run_dir() / "toy" / "data"
    data.parent.mkdir(parents=True)
    data.symlink_to(tmp_path)
    (tmp_path / "kept").touch()
    with pytest.raises(StackError, match=r"The stack cannot use .*symbolic link"):
        up("toy", fresh=True)
    assert (tmp_path / "kept").exists()
    assert status() == []


def test_data_that_are_the_users_are_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(StackError, match="is yours"):
        up("toy", data=tmp_path, fresh=True)
    assert (tmp_path / "mine").exists()


def test_a_wanted_port_is_used() -> None:
    port = choose_port()
    assert up("toy", port=port).record.address == f"127.0.0.1:{port}"


def test_a_recycled_pid_is_neither_shown_nor_stopped() -> None:
    """The record names our own pid, as if the server had died and the system had given us its number."""
    record = up("toy").record
    forged = dataclasses.replace(record.process, pid=os.getpid())
    dataclasses.replace(record, process=forged).save(run_dir() / RECORD)
    assert status() == []
    assert down("toy") is None  # and we are still here
    assert record.process.end(term_bound_s=10.0)


def test_a_server_that_was_killed_is_not_up() -> None:
    record = up("toy").record
    os.kill(record.process.pid, signal.SIGKILL)
    reap(record)
    assert status() == []
    again = up("toy")
    assert not again.already
    assert again.record.process.pid != record.process.pid


def test_a_frozen_server_is_up_and_does_not_answer() -> None:
    record = up("toy").record
    os.kill(record.process.pid, signal.SIGSTOP)
    assert [(health.record, health.answers) for health in status()] == [(record, False)]
    assert down("toy") == record


def test_a_server_that_ignores_the_request_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "TERM_BOUND_S", 0.1)
    record = up("toy", settings={"mode": "hang"}).record
    down("toy")
    assert os.waitstatus_to_exitcode(os.waitpid(record.process.pid, 0)[1]) == -signal.SIGKILL


def test_down_asks_with_the_servers_own_signal() -> None:
    """The toy ignores the usual one: it would be killed after twenty seconds."""
    record = up("toy", settings={"mode": "hang", "stop": "SIGINT"}).record
    down("toy")
    assert os.waitstatus_to_exitcode(os.waitpid(record.process.pid, 0)[1]) == -signal.SIGINT


def test_a_server_that_cannot_start_leaves_nothing_up() -> None:
    with pytest.raises(ServerFailed, match="the reason why"):
        up("toy", settings={"mode": "fail"})
    assert status() == []
    assert up("toy").already is False


def test_a_taken_port_is_refused() -> None:
    record = up("toy").record
    (run_dir() / RECORD).unlink()  # `up` forgets the server; its port stays taken
    with pytest.raises(PortTaken):
        up("toy", port=int(record.address.rpartition(":")[2]))
    assert record.process.end(term_bound_s=10.0)


def test_each_run_has_a_log_of_its_own_and_the_last_one_stays() -> None:
    log = up("toy").record.log
    down("toy")
    up("toy")
    assert log.read_text().count("toy starts") == 1
    assert log.with_suffix(".old.log").read_text().count("toy starts") == 1


def test_a_server_is_on_record_before_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An `up` that is killed while it waits must leave a server that `down` finds."""
    on_record: list[ProcessIdentity] = []

    def answers(self: Toy, address: str) -> bool:
        record = RunRecord.load(run_dir() / RECORD)
        assert record is not None
        on_record.append(record.process)
        return True

    monkeypatch.setattr(Toy, "answers", answers)
    assert [up("toy").record.process] == on_record


def test_a_run_directory_below_a_file_is_named_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TIDEGATE_RUN", str(tmp_path / "file" / "run"))
        for command in (status, partial(up, "toy"), partial(down, "toy")):
            with pytest.raises(StackError, match=rf"The stack cannot use {tmp_path}/file.*: Not a directory"):
                command()


def test_data_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match=rf"The stack cannot use {tmp_path}/file/data: Not a directory"):
        up("toy", data=tmp_path / "file" / "data")
    assert status() == []
