"""A Spark standalone cluster that lives no longer than the process that started it."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from stack.processes.owned import OwnedServer
from stack.recipes.spark_recipe import CORES, MASTER, MEMORY, SparkMaster, SparkWorker


class SparkCluster:
    """A master and its workers, on loopback.

    Attributes:
        master: the URL for ``--master``.
        workers: each can be killed and started again; executors end with their worker.
    """

    def __init__(self, workers: int = 2, *, cores: int = 1, memory: str = "1g") -> None:
        """Start a cluster; each worker offers ``cores`` and ``memory``, in Spark's notation.

        Raises:
            StackError: one of the kinds in ``stack/errors.py``.
        """
        self._started = ExitStack()
        try:
            master = self._started.enter_context(OwnedServer(SparkMaster()))
            self.master = f"spark://{master.address}"
            offered = {MASTER: master.address, CORES: str(cores), MEMORY: memory}
            self.workers = [OwnedServer(SparkWorker(), settings=offered) for _ in range(workers)]
            for worker in self.workers:
                self._started.enter_context(worker)
        except BaseException:
            self._started.close()
            raise

    def close(self) -> None:
        """End all of it."""
        self._started.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
