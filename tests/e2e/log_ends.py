"""Whether a worker has read the log of a scenario to its end."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from tests.e2e.scenario import PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess

_ANSWER_S = 60.0


def log_ends(scenario: Scenario) -> dict[int, int]:
    """The end of each log partition, as the broker says."""
    consumer = Consumer({"bootstrap.servers": scenario.bootstrap, "group.id": f"{scenario.prefix}ends"})
    try:
        log = f"{scenario.prefix}raftlog"
        places = [TopicPartition(log, partition) for partition in range(PARTITIONS)]
        return {place.partition: consumer.get_watermark_offsets(place, _ANSWER_S)[1] for place in places}
    finally:
        consumer.close()


def next_offsets(worker: WorkerProcess) -> dict[int, int]:
    """Return the next offset that each partition of the worker reads."""
    partitions = worker.ask("/status")["partitions"]
    return {partition["partition"]: partition["next_offset"] for partition in partitions}


def wait_until_read(scenario: Scenario, worker: WorkerProcess) -> None:
    """Return once everything that stands in the log now was stepped."""
    ends = log_ends(scenario)
    worker.wait_until(lambda: next_offsets(worker) == ends, f"the log to be read to {ends}")


def read_through(scenario: Scenario) -> None:
    """One worker reads half of the log and stops."""
    worker = scenario.start_worker(instance_id="w0")
    scenario.create_feed(worker)
    scenario.append(max(map(len, scenario.log.partitions)) // 2)
    wait_until_read(scenario, worker)
    assert worker.stop() == 0, worker.text
