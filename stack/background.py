"""Starts, lists and stops servers that run on when the command has ended: `up`, `status` and `down`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stack.errors import ServerFailed, StackError
from stack.file_lock import file_lock
from stack.places import naming_what_cannot_be_used, run_dir
from stack.ports import host_and_port
from stack.processes.child import TERM_BOUND_S, Child
from stack.processes.identity import ProcessIdentity
from stack.processes.launch import launch
from stack.processes.record import RunRecord
from stack.processes.server import Recipe, Request, ServerPlan
from stack.recipes.catalogue import RECIPES


class Started(NamedTuple):
    """The server after `up`, and whether it was up before."""

    record: RunRecord
    already: bool


class Health(NamedTuple):
    """A server that runs, as `status` shows it. ``answers`` says whether it serves clients now."""

    record: RunRecord
    answers: bool
    uptime_s: float


@naming_what_cannot_be_used()
def up(
    name: str,
    *,
    port: int | None = None,
    data: Path | None = None,
    fresh: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Started:
    """Start the server ``name`` unless it is up. Returns when it answers.

    A server that is up stays as it is. If it differs from what is asked for now, that is an error.

    Args:
        name: a key of `RECIPES`.
        port: for clients; any free one by default.
        data: its data directory; by default one in the run directory, which `down` keeps.
        fresh: begin with an empty default data directory. A directory that was named is never emptied.
        settings: settings of the server that override the recipe's.

    Raises:
        StackError: one of the kinds in ``stack/errors.py``, or a server is up that differs from the request.
    """
    home = _home(name)
    with file_lock(home / "lock"):
        if fresh and data is not None:
            raise StackError(f"An empty data directory was asked for, but {data} is yours: empty it.")
        if (running := _running(name)) is not None:
            if differs := _difference(running, port, data, settings or {}, fresh=fresh):
                raise StackError(f"{name} is up, and {differs}: run `down {name}` first.")
            return Started(running, already=True)
        where = data.resolve() if data is not None else home / "data"
        if fresh and where.exists():
            shutil.rmtree(where)
        request = Request(home, where, port, settings or {}, _addresses())
        plan = RECIPES[name].plan(request)
        _set_aside(plan.log)
        return Started(_launch_recorded(RECIPES[name], plan, request.settings), already=False)


@naming_what_cannot_be_used()
def status() -> list[Health]:
    """List all servers that `up` started and that still run.

    Raises:
        StackError: the run directory, or a record in it, cannot be read.
    """
    now = time.time()
    return [
        Health(record, RECIPES[record.name].answers(record.address), now - record.started_at)
        for record in _all_running()
    ]


@naming_what_cannot_be_used()
def down(name: str) -> RunRecord | None:
    """Stop the server ``name`` if `up` started it. Returns None if it does not run. Its data stay.

    Raises:
        StackError: the run directory, or the server's record in it, cannot be used.
        ServerFailed: it runs on although it was killed.
    """
    with file_lock(_home(name) / "lock"):
        record = _running(name)
        if record is not None and not record.process.end(TERM_BOUND_S, stop_signal=record.stop_signal):
            raise ServerFailed(
                f"{name} (pid {record.process.pid}) runs on although it was killed; it may hang in the "
                "operating system. Look at it with `ps`, then run `down` again."
            )
        _record_path(name).unlink(missing_ok=True)
        return record


def _difference(
    running: RunRecord, port: int | None, data: Path | None, settings: Mapping[str, str], *, fresh: bool
) -> str:
    """Return in what the running server differs from the one that was asked for; empty if in nothing.

    The text shows no setting's value, since a value may be a password.
    """
    if fresh:
        return f"its data in {running.data} were not emptied"
    if port is not None and port != (runs_at := host_and_port(running.address)[1]):
        return f"listens at port {runs_at} and not at {port}"
    if data is not None and data.resolve() != running.data:
        return f"has its data in {running.data} and not in {data}"
    known = running.settings  # None if an earlier version started the server
    if known is not None and (other := [key for key, value in settings.items() if known.get(key) != value]):
        return f"was not started with this value of {', '.join(other)}"
    return ""


def _launch_recorded(recipe: Recipe, plan: ServerPlan, settings: Mapping[str, str]) -> RunRecord:
    record: RunRecord | None = None

    def keep_record(child: Child) -> None:
        # The record is kept before the server answers. If `up` is killed while it waits, `down` finds it.
        nonlocal record
        process = ProcessIdentity.of_new(child.pid)
        if process is not None:
            record = RunRecord(
                name=plan.name,
                process=process,
                address=plan.address,
                log=plan.log,
                data=plan.data,
                started_at=time.time(),
                stop_signal=plan.conduct.stop_signal,
                settings=dict(settings),
            )
            record.save(_record_path(plan.name))

    launch(recipe, plan, leashed=False, on_spawn=keep_record)
    if record is None:
        raise ServerFailed(f"{plan.name} ended as soon as it had started; see its log {plan.log}.")
    return record


def _all_running() -> list[RunRecord]:
    return [record for name in RECIPES if (record := _running(name)) is not None]


def _addresses() -> dict[str, str]:
    return {record.name: record.address for record in _all_running()}


def _running(name: str) -> RunRecord | None:
    record = RunRecord.load(_record_path(name))
    return record if record is not None and record.process.alive() else None


def _set_aside(log: Path) -> None:
    if log.exists():
        log.replace(log.with_suffix(".old.log"))  # one log for each run; only the last two are kept


def _home(name: str) -> Path:
    return run_dir().resolve() / name


def _record_path(name: str) -> Path:
    return _home(name) / "server.json"
