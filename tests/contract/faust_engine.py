"""The Faust worker as an engine: a real worker process on a real broker.

Feeds with schemas get a registry in this process. It gives the same ids as the reference engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from tests.contract.engine import Output, Task
from tests.contract.kafka_run import KafkaRun
from tests.destinations import DESTINATIONS_FILE
from tests.e2e.worker_process import WorkerProcess
from tests.registry_server import RegistryServer
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.client.jobs import Jobs

# A run takes one minute where nothing else runs, and five minutes where other tests keep a slow machine busy.
_START_S: Final = 300.0
_FINISH_S: Final = 300.0
_BATCH: Final = 50  # small, so that batches are cut within every case


class FaustWorker:
    """Runs a task on one worker process, with topics of its own on the broker."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory

    def run(self, task: Task) -> Output:
        """See ``Engine``. Raises ``AssertionError`` with the worker's log when the worker ends or makes no
        progress."""
        with RegistryServer() as registry:
            run = KafkaRun(self._bootstrap, task, registry.url, Engine.WORKERS, timeout_s=_START_S)
            with run.topics():
                return _Working(run, self._directory / run.app_id).output()


class _Working:
    """The worker, from its start to its orderly stop."""

    def __init__(self, run: KafkaRun, home: Path) -> None:
        self._run = run
        self._home = home

    def output(self) -> Output:
        """Return what the worker wrote. The log is empty when the feeds begin."""
        run = self._run
        run.write_jobs()
        with WorkerProcess(self._home, self._settings()) as worker:
            self._wait_until_running(worker)
            run.write_log()
            worker.wait_until(self._log_is_processed, "the end of the log", _FINISH_S)
            worker.wait_until(run.is_covered, "the last marker of every feed", _FINISH_S)
            # An orderly stop finishes what is in flight. So everything that the worker writes is there when
            # the topics are read afterwards.
            assert worker.stop() == 0, worker.text[-20_000:]
        return run.read()

    def _settings(self) -> dict[str, str]:
        settings = {
            "bootstrap_servers": self._run.bootstrap,
            "app_id": self._run.app_id,
            "topic_prefix": self._run.prefix,
            "data_dir": str(self._home / "data"),
            "session_timeout_ms": "6000",
            "batch_records": str(_BATCH),
            "destinations_file": str(DESTINATIONS_FILE),
        }
        return {f"TIDEGATE_{name.upper()}": value for name, value in settings.items()}

    def _wait_until_running(self, worker: WorkerProcess) -> None:
        jobs = Jobs(self._run.connection, self._run.app_id)

        def all_run() -> bool:
            view = jobs.view()
            states = {feed.feed_id: view[feed.feed_id] for feed in self._run.feeds}
            failed = [view for view in states.values() if view.status is FeedState.FAILED]
            assert not failed, failed
            return all(view.status is FeedState.RUNNING for view in states.values())

        worker.wait_until(all_run, "all feeds to run", _START_S)

    def _log_is_processed(self) -> bool:
        """Whether the worker's group has committed the offsets of the log's end. Everything up to a committed
        offset is durable.

        A broker that is too busy to answer within 10 seconds is asked again.
        """
        consumer = Consumer({"bootstrap.servers": self._run.bootstrap, "group.id": self._run.app_id})
        try:
            ends = [len(records) for records in self._run.task.log]
            places = [Place(f"{self._run.prefix}raftlog", number) for number in range(len(ends))]
            return [place.offset for place in consumer.committed(places, timeout=10)] == ends
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return False
        finally:
            consumer.close()
