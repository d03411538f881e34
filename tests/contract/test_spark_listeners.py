"""Tests what Spark tells its listeners and pages of a query, and other queries beside it in one session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

import tidegate.spark.changefeed.observed_figures
from stack.kafka import KafkaBroker
from tests.contract.case import BuiltCase, merged
from tests.contract.catalogue import built
from tests.contract.engine import Output
from tests.contract.kafka_run import KafkaRun
from tests.contract.spark_engine import SparkEngine
from tidegate.changefeed.definition.feed import Engine
from tidegate.errors import SettingsError
from tidegate.spark.changefeed.observed_figures import FIGURES, KNOWN, OBSERVED, observed
from tidegate.spark.platform.executors import Needs
from tidegate.spark.platform.session import Placement, placed_session

pytestmark = [pytest.mark.broker, pytest.mark.together]

_EVENTS_S = 120.0
#: How many parts Spark puts together, in the description of a plan.
_COALESCED = re.compile(r"Coalesce\nInput .*\nArguments: (\d+)\n")
_FAULTS_OF_QUERIES = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


class _Heard(StreamingQueryListener):
    """A listener that keeps what it is told of the queries with a name."""

    def __init__(self, name: str) -> None:
        self.progress: list[StreamingQueryProgress] = []
        self.run_ids: list[str] = []
        self.is_over = Event()
        self._name = name

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        if event.name == self._name:
            self.run_ids.append(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        if event.progress.name == self._name:
            self.progress.append(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) in self.run_ids:
            self.is_over.set()


class _Run(NamedTuple):
    case: BuiltCase
    output: Output
    heard: _Heard
    neighbour: StreamingQuery
    jobs: list[str]
    plans: list[str]


@pytest.fixture(scope="module")
def run(
    spark_session: SparkSession, broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Run]:
    """A case, run as a query that has a neighbour in its session."""
    case, directory = built("updates and deletions"), tmp_path_factory.mktemp("listeners")
    run = KafkaRun(broker.bootstrap, merged([case]), "", Engine.SPARK, timeout_s=60)
    run.create_topics()
    run.write_jobs()
    run.write_log()
    heard = _Heard(f"tidegate spark {run.app_id}")
    neighbour = (
        spark_session.readStream.format("rate")
        .load()
        .writeStream.queryName("neighbour")
        .format("noop")
        .option("checkpointLocation", str(directory / "neighbour"))
        .trigger(processingTime="1 hour")  # it is there, and takes nothing from the others
        .start()
    )
    spark_session.streams.addListener(heard)
    try:
        SparkEngine(spark_session, broker.bootstrap, directory).query(run)
        assert heard.is_over.wait(_EVENTS_S)
        yield _Run(case, run.read(), heard, neighbour, _jobs(spark_session), _plans(spark_session))
    finally:
        spark_session.streams.removeListener(heard)
        neighbour.stop()


def _jobs(session: SparkSession) -> list[str]:
    """The descriptions of all jobs, as Spark's page has them."""
    found = session.sparkContext._jsc.sc().statusStore().jobsList(None)
    return [_text(found.apply(index).description()) for index in range(found.size())]


def _plans(session: SparkSession) -> list[str]:
    found = session._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(index).physicalPlanDescription() for index in range(found.size())]


def _text(option: Any) -> str:
    return str(option.get()) if option.isDefined() else ""


def _figures(run: _Run) -> list[dict[str, int | None]]:
    return [each.observedMetrics[OBSERVED].asDict() for each in run.heard.progress if each.observedMetrics]


def test_progress_tells_the_figures_of_each_batch(run: _Run) -> None:
    figures = _figures(run)
    assert len(figures) > 1
    assert all(tuple(each) == FIGURES for each in figures)
    rows = [record for records in run.output.values() for record in records if record.key is not None]
    assert sum(each["rows"] or 0 for each in figures) == len(rows)
    assert sum(each["records"] or 0 for each in figures) == sum(map(len, run.case.log))
    assert {each["quarantined_ranges"] for each in figures} == {0}


def test_progress_counts_the_markers_that_stand_on_the_topics(run: _Run) -> None:
    markers = [record for records in run.output.values() for record in records if record.key is None]
    partitions = {target.partitions for feed in run.case.feeds for target in feed.targets}
    assert len(run.case.feeds) == 1
    assert sum(each["markers"] or 0 for each in _figures(run)) * sum(partitions) == len(markers) > 0


def test_progress_has_a_lag_once_a_feed_has_a_high_water(run: _Run) -> None:
    lag_ms = _figures(run)[-1]["resolved_lag_ms"]
    assert lag_ms is not None
    assert lag_ms > 0


def test_the_sink_of_a_foreach_batch_reports_no_rows(run: _Run) -> None:
    """If this fails, Spark has learnt to: `docs/spark.md` says that it does not."""
    assert {each.sink.numOutputRows for each in run.heard.progress if each.observedMetrics} == {-1}


def test_jobs_are_named_for_the_query_and_in_its_group(spark_session: SparkSession, run: _Run) -> None:
    name = run.heard.progress[0].name
    ours = [job for job in run.jobs if job.startswith(f"{name}: batch ")]
    assert any(job.endswith(", records") for job in ours)
    assert any(job.endswith(", feeds") for job in ours)
    (run_id,) = run.heard.run_ids
    assert len(spark_session.sparkContext.statusTracker().getJobIdsForGroup(run_id)) >= len(ours)


def test_plans_name_what_a_round_is_about(run: _Run) -> None:
    assert any("tidegate_records(" in plan for plan in run.plans)
    assert any("tidegate_feeds(" in plan for plan in run.plans)


def test_a_batch_is_observed_in_as_many_parts_as_a_round_has_tasks(
    spark_session: SparkSession, run: _Run
) -> None:
    """Spark takes some milliseconds for each part: a batch of many log partitions would take longer."""
    observing = [plan for plan in run.plans if f"Arguments: {OBSERVED}, " in plan]
    assert len(run.case.log) > spark_session.sparkContext.defaultParallelism
    assert {tuple(_COALESCED.findall(plan)) for plan in observing} == {
        (str(spark_session.sparkContext.defaultParallelism),)
    }


def test_a_neighbour_in_the_session_goes_on_and_its_faults_are_logged(
    spark_session: SparkSession, run: _Run
) -> None:
    assert run.neighbour.isActive
    assert run.neighbour.exception() is None
    log4j = spark_session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    assert log4j.LogManager.getLogger(_FAULTS_OF_QUERIES).isErrorEnabled()


def test_a_job_beside_others_leaves_their_session_as_it_is(spark_session: SparkSession) -> None:
    before = spark_session.conf.get("spark.sql.adaptive.enabled") or ""
    spark_session.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        with placed_session("beside", Placement(jars=None), Needs("json")) as beside:
            assert beside.conf.get("spark.sql.adaptive.enabled") == "false"
        with (
            pytest.raises(SettingsError, match="nowhere"),
            placed_session("beside", Placement(jars=None), Needs("json", "file:///nowhere/query.json")),
        ):
            pass
        assert spark_session.conf.get("spark.sql.adaptive.enabled") == "true"
    finally:
        spark_session.conf.set("spark.sql.adaptive.enabled", before)
    assert spark_session.range(3).count() == 3


def test_a_spark_that_cannot_observe_the_figures_runs_the_query_without(
    spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """4.3.0 cannot: it sends the function to executors. Here the metric is one that no version takes."""
    monkeypatch.setattr(tidegate.spark.changefeed.observed_figures, "KNOWN", ())
    monkeypatch.setattr(tidegate.spark.changefeed.observed_figures, "FIGURES", ("no name",))
    stream = spark_session.readStream.format("rate").load()
    with observed(stream, dict) as told:
        assert told is stream
    assert f"Spark {spark_session.version} cannot tell the figures" in caplog.text


def test_the_version_of_the_tests_takes_the_figures(
    spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it is right not to try it at each start of a query."""
    assert spark_session.version in KNOWN
    monkeypatch.setattr(tidegate.spark.changefeed.observed_figures, "KNOWN", ())
    stream = spark_session.readStream.format("rate").load()
    with observed(stream, dict) as told:
        assert told is not stream


def test_figures_that_cannot_be_had_do_not_end_a_query(spark_session: SparkSession, tmp_path: Path) -> None:
    stream = spark_session.readStream.format("rate").option("rowsPerSecond", 100).load()
    with observed(stream, lambda: {"rows": 1 // 0}) as told:
        query = told.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
        try:
            while not any(each.observedMetrics for each in query.recentProgress):
                assert query.isActive, query.exception()
                Event().wait(0.1)
        finally:
            query.stop()
    told_of = [each.observedMetrics for each in query.recentProgress if each.observedMetrics]
    assert set(told_of[0][OBSERVED].asDict().values()) == {None}
