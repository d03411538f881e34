"""Processes that mirror tables are killed again and again, beside killed workers and ranges that split: a
mirror is never anything but a state of the store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from contextlib import closing
from pathlib import Path
from random import Random
from typing import IO, Any, Final

import msgspec
import pytest

from examples.sqlite_mirror import stored
from stack.kafka import KafkaBroker
from stack.places import CHECKOUT
from tests.e2e.live_load import MANY_ROWS_PER_S, LiveLoad, live_load
from tests.e2e.true_states import TrueStates
from tidegate.hlc import ZERO, Timestamp, parse_decimal

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(900)]

#: The test goes on until each mirror was killed so often, and seen in so many states.
_KILLS: Final = 12
_STATES: Final = 25
_COMES_S: Final = 420.0
_TABLES: Final = {"flights": "carrier,flight,time_hour", "weather": "origin,time_hour"}
#: How many new states a mirror lives to see, and how long at most: some end before they have begun.
_LIFE_STATES: Final = 4
_SHORT_LIFE_S: Final = (0.2, 5.0)
_LONG_LIFE_S: Final = 60.0
_WORKER_LIFE_S: Final = 40.0
_LOOK_S: Final = 0.2


class MirrorProcess:
    """``examples.sqlite_mirror`` of one table: it is killed at random moments, and started again."""

    def __init__(self, load: LiveLoad, table: str, directory: Path, seed: int) -> None:
        self._load = load
        self._table = table
        self._file = directory / f"{table}.db"
        self._log = (directory / f"{table}.log").open("w+b")
        self._random = Random(seed)
        self.kills = 0
        #: Each state that was seen: its frontier, the columns, and the rows.
        self.states: dict[Timestamp, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {}
        self._process = self._start()

    @property
    def frontier(self) -> Timestamp:
        """The highest one that was seen."""
        return max(self.states, default=ZERO)

    def look(self) -> None:
        """Remember the mirror as it is. The frontier that is stored with it never falls."""
        seen = _state_of(self._file, self._table)
        if seen is None:
            return
        frontier, columns, rows = seen
        assert frontier >= self.frontier
        assert self.states.setdefault(frontier, (columns, rows)) == (columns, rows)

    def live_on(self) -> None:
        """Kill the process if its time has come, look at what it leaves, and start the next one."""
        if time.monotonic() < self._dies_at and len(self.states) < self._dies_with:
            self._require_running()
            return
        self._process.kill()
        self._process.wait()
        self.kills += 1
        self.look()
        self._process = self._start()

    def end(self) -> None:
        """Kill it for good."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _require_running(self) -> None:
        if self._process.poll() is not None:
            self._log.seek(0)
            raise AssertionError(
                f"the mirror of {self._table} has ended: {self._log.read().decode()[-3_000:]}"
            )

    def _start(self) -> subprocess.Popen[bytes]:
        lives = self._random.randint(0, _LIFE_STATES)
        self._dies_with = len(self.states) + lives if lives else sys.maxsize
        life_s = _LONG_LIFE_S if lives else self._random.uniform(*_SHORT_LIFE_S)
        self._dies_at = time.monotonic() + life_s
        known = self._load.environment
        arguments = [
            *("--bootstrap-servers", known["TIDEGATE_BOOTSTRAP_SERVERS"]),
            *("--app-id", self._load.app_id, "--topic-prefix", self._load.prefix),
            *("--database", str(self._file), "--key", _TABLES[self._table], self._table),
        ]
        command = [sys.executable, "-m", "examples.sqlite_mirror", *arguments]
        log: IO[bytes] = self._log
        return subprocess.Popen(command, cwd=CHECKOUT, stdout=log, stderr=log)


def _state_of(file: Path, table: str) -> tuple[Timestamp, tuple[str, ...], list[tuple[Any, ...]]] | None:
    """Return what a mirror's file has: its token's frontier, its columns and rows, all of one moment."""
    if not file.exists():
        return None
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if not {"tidegate_checkpoints", table} <= tables:
            return None
        database.execute("BEGIN")
        (token,) = database.execute("SELECT token FROM tidegate_checkpoints").fetchone() or (None,)
        found = database.execute(f"SELECT * FROM {table}")
        rows, columns = found.fetchall(), tuple(column[0] for column in found.description)
    if token is None:
        assert rows == []
        return None
    told = msgspec.json.decode(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return parse_decimal(told["frontier"]), columns, rows


def test_a_mirror_that_is_killed_again_and_again_is_always_a_state_of_the_store(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    seed = 18
    print("seed", seed)
    moves = {"split_every_ms": 2_000, "merge_every_ms": 3_000}
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=seed, store=moves, rows_per_s=MANY_ROWS_PER_S // 2
    ) as load:
        worker, workers = load.start_worker("w0"), 1
        load.create_feed("updated, resolved, initial_scan='yes'")
        mirrors = [MirrorProcess(load, table, tmp_path, seed + at) for at, table in enumerate(_TABLES)]
        try:
            until = time.monotonic() + _COMES_S
            worker_dies_at = time.monotonic() + _WORKER_LIFE_S
            while not all(each.kills >= _KILLS and len(each.states) >= _STATES for each in mirrors):
                assert time.monotonic() < until, [(each.kills, len(each.states)) for each in mirrors]
                time.sleep(_LOOK_S)
                for mirror in mirrors:
                    mirror.look()
                    mirror.live_on()
                if time.monotonic() > worker_dies_at:
                    worker.kill()  # what it had in flight comes again
                    worker, workers = load.start_worker(f"w{workers}"), workers + 1
                    worker_dies_at = time.monotonic() + _WORKER_LIFE_S
            report = load.finish()
            load.wait_until(lambda: _all_at(mirrors, report.covered), f"mirrors at {report.covered}")
        finally:
            for mirror in mirrors:
                mirror.end()
        expected = list(load.expected())
        for mirror, table in zip(mirrors, _TABLES, strict=True):
            truth = TrueStates(expected, f"{topic_prefix}{table}")
            print(table, "kills", mirror.kills, "states", len(mirror.states), "workers", workers)
            for frontier, (columns, rows) in mirror.states.items():
                true = [tuple(map(stored, row)) for row in truth.rows(frontier, columns)]
                assert sorted(rows, key=repr) == sorted(true, key=repr), f"{table} at {frontier}"


def _all_at(mirrors: list[MirrorProcess], time: Timestamp) -> bool:
    for mirror in mirrors:
        mirror.look()
    return all(mirror.frontier > time for mirror in mirrors)
