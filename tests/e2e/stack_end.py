"""Checks that nothing is left of a server of the stack when it has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from confluent_kafka.schema_registry import SchemaRegistryClient

from stack.places import CHECKOUT
from stack.ports import host_and_port, is_free
from stack.processes.identity import ProcessIdentity
from stack.processes.owned import OwnedServer

_ANSWER_S = 60


def children_of(pid: int) -> set[ProcessIdentity]:
    """The processes that ``pid`` started and that run now."""
    done = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [(int(child), int(parent)) for child, parent in map(str.split, done.stdout.splitlines())]
    found = [ProcessIdentity.of(child) for child, parent in pairs if parent == pid]
    return {child for child in found if child is not None}


def nothing_is_left_of(
    server: AbstractContextManager[OwnedServer], use: Callable[[OwnedServer], object]
) -> None:
    """Run ``server``, let ``use`` work with it, end it, and see that its processes, port and files are gone.

    Its processes are those that this process started for it, with the watcher among them, and their children.
    """
    others = children_of(os.getpid())
    with server as running:
        use(running)
        processes = (children_of(os.getpid()) - others) | children_of(running.pid)
        assert running.pid in {process.pid for process in processes}
    assert not [process for process in processes if process.alive()]
    assert is_free(host_and_port(running.address)[1])
    assert not running.log.parent.exists()


def registry_client(url: str) -> SchemaRegistryClient:
    """A client that asks again where a busy registry does not answer; by default it would wait for ever."""
    return SchemaRegistryClient({"url": url, "timeout": _ANSWER_S})


def stack(run_dir: Path, *arguments: str, succeeds: bool = True) -> str:
    """Return what ``python -m stack`` prints, or the sentence with which it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "stack", *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"TIDEGATE_RUN": str(run_dir)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode == 0) == succeeds, done.stderr
    return done.stdout if succeeds else done.stderr
