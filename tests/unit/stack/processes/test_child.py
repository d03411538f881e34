from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stack.places import CHECKOUT
from stack.processes import child
from stack.processes.child import Child
from stack.processes.identity import ProcessIdentity
from stack.processes.leash import Leash
from stack.processes.server import Conduct
from tests.e2e.stack_end import children_of

# Starts a leashed child, tells its pid, and waits for what the test does to it.
_OWNER = """
import pathlib, sys, time
from stack.processes.child import Child
child = Child(("sleep", "600"), pathlib.Path(sys.argv[1]), leashed=True)
print(child.pid, flush=True)
time.sleep(600)
"""
_STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
# Threads that compute, none of which waits for another.
_BUSY = """
import hashlib, threading
def compute():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**6)
for _ in range(8):
    threading.Thread(target=compute).start()
print("busy", flush=True)
"""


def await_end(process: ProcessIdentity) -> None:
    deadline = time.monotonic() + 60
    while process.alive():
        assert time.monotonic() < deadline, f"{process} did not end"
        time.sleep(0.01)


def await_text(log: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in log.read_text():
        assert time.monotonic() < deadline, f"{log} never said {text!r}"
        time.sleep(0.01)


def state_of(pid: int) -> str:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout[:1]


def states_of_threads(pid: int) -> list[str]:
    """Asked of the kernel at once: by the time that another program has looked they all stand still."""
    return [stat.read_text().rpartition(") ")[2][:1] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_leashed_child_dies_with_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, tmp_path / "log"], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        process = ProcessIdentity.of_new(int(owner.stdout.readline()))
        assert process is not None
        owner.send_signal(number)
    await_end(process)


@pytest.mark.parametrize("leashed", [True, False])
def test_stop_ends_the_child_politely(tmp_path: Path, leashed: bool) -> None:
    running = Child(("sleep", "600"), tmp_path / "log", leashed=leashed)
    assert running.exit_status is None
    running.stop()
    assert running.exit_status == -signal.SIGTERM


@pytest.mark.parametrize("leashed", [True, False])
def test_the_pid_is_the_servers_own(tmp_path: Path, leashed: bool) -> None:
    log = tmp_path / "log"
    running = Child(("sh", "-c", "echo pid $$ is; sleep 600"), log, leashed=leashed)
    await_text(log, "is")
    running.kill()
    assert f"pid {running.pid} is" in log.read_text()


@pytest.mark.parametrize("leashed", [True, False])
def test_each_end_has_the_signal_that_the_server_wants(tmp_path: Path, leashed: bool) -> None:
    conduct = Conduct(stop_signal=signal.SIGUSR1, crash_signal=signal.SIGUSR2)
    for end, number in ((Child.stop, signal.SIGUSR1), (Child.kill, signal.SIGUSR2)):
        running = Child(("sleep", "600"), tmp_path / "log", leashed=leashed, conduct=conduct)
        end(running)
        assert running.exit_status == -number


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run something as somebody else")
@pytest.mark.parametrize("leashed", [True, False])
def test_a_child_of_another_account_has_no_more_than_that_account(tmp_path: Path, leashed: bool) -> None:
    log = tmp_path / "log"
    conduct = Conduct(account="nobody")
    running = Child(("sh", "-c", "id -un; id -Gn; echo said"), log, leashed=leashed, conduct=conduct)
    await_text(log, "said")
    running.stop()
    assert log.read_text() == "nobody\nnogroup\nsaid\n"


def ends(child: Child, how: str) -> None:
    """End the child, or wait until it has ended by itself."""
    if how != "itself":
        getattr(child, how)()
    while child.exit_status is None:
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["stop", "kill", "itself"])
def test_when_a_child_has_ended_its_watcher_is_gone(tmp_path: Path, how: str) -> None:
    """Or else its watcher would, much later, kill whatever has its pid by then."""
    before = children_of(os.getpid())
    running = Child(("sleep", "0.1" if how == "itself" else "600"), tmp_path / "log", leashed=True)
    watcher = [child for child in children_of(os.getpid()) - before if child.pid != running.pid]
    assert len(watcher) == 1
    ends(running, how)
    assert not watcher[0].alive()


def test_a_server_that_is_not_watched_yet_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may die at any moment, and nobody would end it."""

    def fails(pid: int) -> Leash:
        raise OSError("no more processes")

    monkeypatch.setattr(child, "Leash", fails)
    before = children_of(os.getpid())
    with pytest.raises(OSError, match="no more processes"):
        Child(("sh", "-c", "echo started; sleep 600"), tmp_path / "log", leashed=True)
    assert children_of(os.getpid()) == before
    assert (tmp_path / "log").read_text() == ""


def test_a_child_that_will_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "TERM_BOUND_S", 0.1)
    running = Child(_STUBBORN, tmp_path / "log", leashed=False)
    await_text(tmp_path / "log", "ready")
    running.stop()
    assert running.exit_status == -signal.SIGKILL


def test_a_paused_child_is_frozen_until_it_is_resumed(tmp_path: Path) -> None:
    running = Child(("sleep", "600"), tmp_path / "log", leashed=True)
    running.pause()
    assert state_of(running.pid) == "T"
    running.resume()
    os.waitid(os.P_PID, running.pid, os.WCONTINUED)
    assert state_of(running.pid) != "T"
    running.stop()


def test_a_child_stands_still_in_all_its_threads_once_it_is_paused(tmp_path: Path) -> None:
    """Of threads that all want to run, some hear of the signal when they come to run again."""
    running = Child((sys.executable, "-c", _BUSY), tmp_path / "log", leashed=True)
    await_text(tmp_path / "log", "busy")
    for _ in range(5):
        for _ in range(2):  # who stands still already does so at once
            running.pause()
            assert set(states_of_threads(running.pid)) == {"T"}
        running.resume()
    running.stop()


def test_a_child_that_has_ended_need_not_be_paused(tmp_path: Path) -> None:
    running = Child(("true",), tmp_path / "log", leashed=True)
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    running.pause()
    assert running.exit_status == 0
    running.pause()


def test_a_paused_child_can_be_stopped(tmp_path: Path) -> None:
    running = Child(("sleep", "600"), tmp_path / "log", leashed=True)
    running.pause()
    running.stop()
    assert running.exit_status == -signal.SIGTERM


def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    running = Child(("true",), tmp_path / "log", leashed=True)
    running.stop()
    status = running.exit_status
    assert status is not None
    running.stop()
    running.kill()
    assert running.exit_status == status


def test_output_goes_to_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    running = Child(("sh", "-c", "echo out; echo err >&2; sleep 600"), log, leashed=True)
    await_text(log, "err")
    running.stop()
    assert log.read_text() == "before\nout\nerr\n"


def test_a_failed_start_leaks_no_pipe(tmp_path: Path) -> None:
    before = set(os.listdir("/dev/fd"))
    with pytest.raises(FileNotFoundError):
        Child(("true",), tmp_path / "absent" / "log", leashed=True)
    assert set(os.listdir("/dev/fd")) == before
