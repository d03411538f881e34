from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from stack.processes import identity
from stack.processes.identity import ProcessIdentity

# Says that it is ready after it has chosen to ignore the polite request.
_STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = ProcessIdentity.of_new(process.pid)
    assert found is not None
    return found


def test_a_running_process_is_alive(sleeper: subprocess.Popen[bytes]) -> None:
    assert identity_of(sleeper).alive()
    assert "sleep 600" in identity_of(sleeper).command


def test_a_new_process_is_known_by_its_own_command_however_early_it_is_asked() -> None:
    for _ in range(20):
        with subprocess.Popen(["sleep", "600"]) as process:
            known = ProcessIdentity.of_new(process.pid)
            assert known is not None
            assert known.command == "sleep 600"
            process.kill()


def test_an_ended_process_is_not_alive_even_before_it_is_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    known = identity_of(sleeper)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not known.alive()
    sleeper.wait()
    assert not known.alive()


@pytest.mark.parametrize("field", ["started", "command"])
def test_a_recycled_pid_is_never_signalled(sleeper: subprocess.Popen[bytes], field: str) -> None:
    now = dataclasses.asdict(identity_of(sleeper))
    before = ProcessIdentity(**(now | {field: "another's"}))
    assert not before.alive()
    assert before.end(term_bound_s=0.0)
    assert sleeper.poll() is None


def test_end_is_polite_first(sleeper: subprocess.Popen[bytes]) -> None:
    assert identity_of(sleeper).end(term_bound_s=10.0)
    assert sleeper.wait() == -signal.SIGTERM


def test_a_frozen_process_ends_too(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    assert identity_of(sleeper).end(term_bound_s=10.0)
    assert sleeper.wait() == -signal.SIGTERM


def test_a_process_that_ignores_the_request_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        assert identity_of(stubborn).end(term_bound_s=0.1)
        assert stubborn.wait() == -signal.SIGKILL


def test_the_portable_way_tells_the_same_process(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_facts", identity._from_ps)
    known = identity_of(sleeper)
    assert known.command == "sleep 600"
    assert known.alive()
    sleeper.kill()
    sleeper.wait()
    assert not known.alive()
