"""The wheel in an environment of its own: every command runs, without a checkout and without a network.

The environment has no package but tidegate. It sees the dependencies in the test environment, whose own
tidegate it cannot see: that is a checkout, named in a ``.pth`` file, and such files count only where an
environment has its own packages.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from stack.places import CHECKOUT
from tidegate.worker.process.settings import Settings

_SERVICE_TREE: Final = ("agents", "app", "pipeline", "schemas", "sim", "stack", "tables")
_COMMAND_S: Final = 180
_LOOK_AGAIN_S: Final = 0.05
_OURS: Final = ("PYTHON", "TIDEGATE_", "XDG_")


class Installed:
    """An environment with the wheel, an empty directory to run in, and a home of its own."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "environment" / "bin"
        self.home = directory / "home"
        self.empty = directory / "empty"
        venv.create(directory / "environment", symlinks=True)
        (self.packages,) = (directory / "environment" / "lib").glob("python3*/site-packages")
        before = {*self.packages.iterdir()}
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", directory, CHECKOUT)
        (self.wheel,) = directory.glob("*.whl")
        _pip("--python", self.bin / "python", "install", "--no-deps", "--no-compile", self.wheel)
        self.added = {path.name for path in {*self.packages.iterdir()} - before}
        (self.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
        for each in (self.home, self.empty):
            each.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """The variables of whoever has just logged in."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return inherited | {"HOME": str(self.home)}

    def run(self, *command: str, **variables: str) -> str:
        """Return what a program of the environment prints, run in the empty directory."""
        done = self._done(*command, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def refusal(self, *command: str) -> str:
        """Return what a program prints that does not do what it is asked for."""
        done = self._done(*command)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def _done(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.empty,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )

    def python(self, code: str) -> str:
        """Return what a few lines of Python print."""
        return self.run("python", "-c", code).strip()

    def start(self, *command: str, log: Path, **variables: str) -> subprocess.Popen[bytes]:
        """Start a program in the empty directory, with its output in ``log``."""
        with log.open("ab") as output:
            return subprocess.Popen(
                [self.bin / command[0], *command[1:]],
                cwd=self.empty,
                env=self.environment | variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


def _pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", *map(str, arguments)]
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_site_packages_gets_no_name_but_tidegate(installed: Installed) -> None:
    assert installed.added == {"tidegate", "tidegate-0.1.0.dist-info"}


def test_the_carried_tree_is_used(installed: Installed) -> None:
    carried = installed.packages / "tidegate" / "service"
    modules = ("app.main", "agents.jobs", "tables", "schemas.schema_ids", "pipeline", "sim.run", "stack.cli")
    found = installed.python(
        "from tidegate.cli.service_tree import service_module\n"
        f"print(*(service_module(name).__file__ for name in {modules}), sep='\\n')"
    ).splitlines()
    assert len(found) == len(modules)
    assert all(Path(file).is_relative_to(carried) for file in found)


def test_who_imports_the_library_sees_none_of_the_names(installed: Installed) -> None:
    code = f"""
import sys, tidegate.cli.main
from importlib.util import find_spec
print([name for name in {_SERVICE_TREE} if find_spec(name)], [p for p in sys.path if "service" in p])
"""
    assert installed.python(code) == "[] []"


def test_modules_of_others_with_these_names_are_not_taken(installed: Installed, tmp_path: Path) -> None:
    """Such as PyTables, whose module is ``tables``, or an ``app.py`` where the command is run."""
    for name in _SERVICE_TREE:
        (tmp_path / f"{name}.py").write_text("raise SystemExit(__file__)\n")
    others = {"PYTHONPATH": str(tmp_path)}
    assert "--bootstrap-servers" in installed.run(
        "python", "-m", "tidegate.cli", "worker", "--help", **others
    )
    assert installed.run("tidegate", "stack", "status", **others) == "Nothing is up.\n"


def test_a_process_that_a_command_starts_finds_the_tree_as_well(installed: Installed) -> None:
    code = """
import multiprocessing
from tidegate.cli.service_tree import service_module
service_module("sim")
for method in ("fork", "spawn"):
    with multiprocessing.get_context(method).Pool(1) as pool:
        print(pool.apply(eval, ("__import__('sim').__file__",)))
"""
    file = str(installed.packages / "tidegate" / "service" / "sim" / "__init__.py")
    assert installed.python(code).splitlines() == [file, file]


def test_the_worker_has_an_option_for_every_setting(installed: Installed) -> None:
    options = re.findall(r"--[a-z-]+", installed.run("tidegate", "worker", "--help"))
    settings = [name for name in Settings.model_fields if not name.endswith(("_password", "_token"))]
    assert {f"--{name.replace('_', '-')}" for name in settings} <= set(options)


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("sim run", "Usage: tidegate sim run"),
        ("stack up", "Usage: tidegate stack up"),
        ("spark changefeed", "Usage: tidegate spark changefeed"),
        ("spark backfill", "Usage: tidegate spark backfill"),
        ("spark load", "Usage: tidegate spark load"),
    ],
)
def test_a_command_explains_itself(installed: Installed, command: str, begins: str) -> None:
    assert installed.run("tidegate", *command.split(), "--help").startswith(begins)


@pytest.mark.parametrize("job", ["changefeed", "backfill", "warehouse"])
def test_a_spark_job_is_a_file_that_spark_submit_can_be_given(installed: Installed, job: str) -> None:
    file = installed.packages / "tidegate" / "service" / "pipeline" / f"{job}.py"
    assert f"Usage: {job}.py" in installed.run("python", str(file), "--help")


def test_what_stack_starts_is_kept_with_the_users_state(installed: Installed) -> None:
    assert installed.run("tidegate", "stack", "status") == "Nothing is up.\n"
    code = (
        "from tidegate.cli.service_tree import service_module\n"
        "print(service_module('stack.places').run_dir())\n"
        "print(len(service_module('stack.pinned').pinned().jars) > 0)"
    )
    home = installed.home / ".local" / "state" / "tidegate" / "run"
    assert installed.python(code).splitlines() == [str(home), "True"]


def test_a_worker_refuses_settings_by_a_sentence(installed: Installed) -> None:
    refusal = installed.refusal("tidegate", "worker", "--batch-records", "none")
    assert "batch_records" in refusal


@pytest.fixture
def worker(installed: Installed, tmp_path: Path) -> Iterator[Worker]:
    started = Worker(installed, tmp_path)
    yield started
    started.close()


class Worker:
    """``tidegate worker`` of the environment."""

    def __init__(self, installed: Installed, directory: Path) -> None:
        self._installed = installed
        self._log = directory / "worker.log"
        self._data = directory / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: str) -> None:
        """Start it with these settings, as variables."""
        self._process = self._installed.start(
            "tidegate", "worker", "--data-dir", str(self._data), log=self._log, **settings
        )

    def wait_for(self, text: str) -> None:
        """Return once it has written ``text``."""
        deadline = time.monotonic() + _COMMAND_S
        while text not in self._log.read_text():
            self._look_again(deadline)

    def wait_for_some(self, metric: str) -> None:
        """Return once ``metric`` is above 0."""
        deadline = time.monotonic() + _COMMAND_S
        (told,) = self._data.glob("*/worker.json")
        address = json.loads(told.read_text())["url"] + "/metrics"
        while True:
            with urllib.request.urlopen(address, timeout=60) as answer:
                found = re.search(rf"^{metric} (\S+)$", answer.read().decode(), re.MULTILINE)
            assert found is not None, metric
            if float(found[1]) > 0:
                return
            self._look_again(deadline)

    def _look_again(self, deadline: float) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        assert time.monotonic() < deadline, self._log.read_text()
        time.sleep(_LOOK_AGAIN_S)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_COMMAND_S)

    def close(self) -> None:
        """End it in any case."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def test_a_worker_without_a_broker_says_what_it_waits_for(worker: Worker) -> None:
    worker.start(TIDEGATE_BOOTSTRAP_SERVERS="127.0.0.1:9")
    worker.wait_for("waiting for Kafka")
    assert worker.stop() == 0


@pytest.mark.broker
def test_the_store_the_worker_with_its_kernel_and_a_feed_run_from_the_wheel(
    installed: Installed, worker: Worker, broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """No compiler is on the path, nor anything but the environment's own programs."""
    settings = {
        "PATH": str(installed.bin),
        "TIDEGATE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "TIDEGATE_TOPIC_PREFIX": topic_prefix,
        "TIDEGATE_APP_ID": f"{topic_prefix}app",
    }
    log = tmp_path / "store.log"
    command = ("tidegate", "sim", "run", "--workload", "bank", "--partitions", "2", "--seconds", "120")
    with installed.start(*command, log=log, **settings) as store:
        worker.start(**settings)
        worker.wait_for("the worker starts")
        sink = f"kafka://{broker.bootstrap}?topic_prefix={topic_prefix}"
        feed = f"CREATE CHANGEFEED FOR TABLE accounts INTO '{sink}' WITH updated, resolved, initial_scan='no'"
        assert "The feed is running." in installed.run("tidegate", "feed", "create", feed, **settings)
        worker.wait_for_some("tidegate_kernel_records_total")
        store.send_signal(signal.SIGTERM)
        assert store.wait(_COMMAND_S) == 0
    assert "transactions" in log.read_text()
    assert worker.stop() == 0
    assert [*installed.empty.iterdir()] == []
