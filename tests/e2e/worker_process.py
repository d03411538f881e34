"""A worker as a process of its own: started, asked, stopped and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from stack.places import CHECKOUT
from tests.e2e.forked_python import ForkedPython

FAUST: Final = ("-m", "faust", "-A", "app.main", "worker")
_LOOK_AGAIN_S: Final = 0.05


class WorkerProcess:
    """A process that runs ``python`` with ``arguments``, by default the Faust worker, in the environment of
    ``settings``.

    With ``fresh`` the interpreter has imported nothing yet, as when an operator starts it; otherwise see
    `ForkedPython`.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str],
        arguments: Sequence[str] = FAUST,
        name: str = "worker",
        *,
        fresh: bool = False,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"{name}-{time.monotonic_ns()}.log"
        self.log.touch()
        self.home = home
        environment = {**os.environ, **settings}
        self._process: subprocess.Popen[bytes] | ForkedPython = (
            _fresh_python(arguments, environment, self.log)
            if fresh
            else ForkedPython(arguments, environment, self.log)
        )

    @property
    def text(self) -> str:
        """The text that it has written so far."""
        return self.log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Freeze it. The group then believes that it is dead, and it does not know that."""
        self._process.send_signal(signal.SIGSTOP)

    def wait_until_frozen(self) -> None:
        """Return once it has frozen itself."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        self.wait_until(lambda: ") T " in stat.read_text(), "the process to halt")

    def resume(self) -> None:
        """Let a frozen worker go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Ask it to end in an orderly way; returns its exit status."""
        self.terminate()
        return self.wait()

    def terminate(self) -> None:
        """Ask it to end, and do not wait for it."""
        self._process.terminate()

    def wait(self, timeout_s: float = 60.0) -> int:
        """Return its exit status, once it has ended."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker runs on\n{self.text}") from None

    def wait_for(self, text: str, timeout_s: float = 60.0) -> None:
        """Return once it has written ``text``."""
        self.wait_until(lambda: text in self.text, f"{text!r} in its log", timeout_s)

    def wait_until(self, true: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Return once ``true``. Raises ``AssertionError`` with its log when it ends before that, or when the
        wait takes too long."""
        begun = time.monotonic()
        deadline = begun + timeout_s
        while not true():
            if not self.running or time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}\n{self.told()}")
            time.sleep(max(_LOOK_AGAIN_S, time.monotonic() - begun))  # half of the time is for the worker
            begun = time.monotonic()

    def told(self) -> str:
        """Return the end of its log, and its status, or why there is none: its status server may not have
        started yet."""
        if not self.running:
            return f"{self.text[-20_000:]}\nThe worker ended with {self._process.returncode}."
        try:
            status = str(self.ask("/status"))
        except (OSError, ValueError) as error:
            status = f"no status: {error!r}"
        return f"{self.text[-20_000:]}\nThe worker runs: {status}"

    def ask(self, path: str) -> Any:
        """The JSON that its status server answers."""
        address = json.loads((self.home / "worker.json").read_text())["url"]
        with urllib.request.urlopen(address + path, timeout=60) as answer:
            return json.load(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.resume()
            self.kill()


def _fresh_python(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=CHECKOUT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
