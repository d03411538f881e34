"""The partitions that workers hold, and the wait until they have all of them between them."""

from __future__ import annotations

from tests.e2e.scenario import PARTITIONS
from tests.e2e.worker_process import WorkerProcess


def partitions_of(worker: WorkerProcess) -> set[int]:
    running = [row for row in worker.ask("/status")["partitions"] if row["state"] == "running"]
    return {row["partition"] for row in running}


def wait_for_all(*workers: WorkerProcess) -> None:
    """Wait until these workers have every partition between them, each at least one."""

    def shared() -> bool:
        held = [partitions_of(worker) for worker in workers]
        return all(held) and sorted(p for some in held for p in some) == list(range(PARTITIONS))

    workers[0].wait_until(shared, "all partitions to be held", 90)
