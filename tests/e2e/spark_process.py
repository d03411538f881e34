"""A Spark driver as a process group of its own: Python, its Java process, and the Python workers of that Java
process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from stack.places import CHECKOUT
from stack.ports import LOOPBACK
from tests.e2e.live_load import LiveLoad
from tests.spark_session import skip_without_java

_LOOK_AGAIN_S: Final = 0.2


class Cluster(NamedTuple):
    """The executors of a driver: the master's URL, and the Python that they run."""

    master: str
    python: Path


class SparkCommand:
    """``tidegate spark`` with these arguments, for the application of a load; its log is in ``directory``.

    If a ``cluster`` is given, the command runs there, from a directory outside the checkout.
    """

    def __init__(
        self,
        load: LiveLoad,
        directory: Path,
        arguments: Sequence[str],
        cluster: Cluster | None = None,
    ) -> None:
        skip_without_java()
        master = "local[2]" if cluster is None else cluster.master
        command = [sys.executable, "-m", "tidegate.cli", "spark", *arguments, "--master", master]
        self._log = directory / f"spark-{time.monotonic_ns()}.log"
        paths = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=CHECKOUT if cluster is None else directory,
                env={
                    **os.environ,
                    **load.environment,
                    "PYTHONPATH": paths,
                    **(
                        {}
                        if cluster is None
                        else {"PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": LOOPBACK}
                    ),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        """The text that it has written so far."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill all processes of it at the same time, as if the machine were lost."""
        assert self._process.poll() is None, self.text
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait_until(self, true: Callable[[], bool], what: str, timeout_s: float = 240.0) -> None:
        """Return once ``true``. Raises ``AssertionError`` with its log when it ends before that, or when the
        wait takes too long."""
        deadline = time.monotonic() + timeout_s
        while not true():
            assert self.running, f"ended before {what}\n{self.text[-5_000:]}"
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self.text[-5_000:]}"
            time.sleep(_LOOK_AGAIN_S)

    def wait(self, timeout_s: float = 240.0) -> int:
        """Return its exit status, once it has ended."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """Ask it to end; returns its exit status."""
        self._process.send_signal(signal.SIGINT)
        return self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()


class SparkProcess(SparkCommand):
    """``tidegate spark changefeed`` for the application of a load, with its checkpoint in ``checkpoint``."""

    def __init__(
        self,
        load: LiveLoad,
        checkpoint: Path,
        options: Sequence[str] = (),
        cluster: Cluster | None = None,
    ) -> None:
        command = ["changefeed", "--checkpoint", str(checkpoint), "--output-partitions", "3", *options]
        super().__init__(load, checkpoint.parent, command, cluster)


class BackfillProcess(SparkCommand):
    """``tidegate spark backfill`` of a feed with these options; workers go on with it."""

    def __init__(self, load: LiveLoad, directory: Path, options: str) -> None:
        command = ["backfill", "--work", str(directory), "--output-partitions", "3"]
        super().__init__(load, directory.parent, [*command, load.statement(options)])


class LoaderProcess(SparkCommand):
    """``tidegate spark load --follow`` of the load's feed, into ``directory``."""

    def __init__(self, load: LiveLoad, directory: Path) -> None:
        command = ["load", "--feed", load.feed_id, "--to", str(directory), "--follow", "--interval", "1"]
        super().__init__(load, directory.parent, [*command, "--bucket", "2s", "--delta"])
