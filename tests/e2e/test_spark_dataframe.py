"""``format("tidegate")`` beside a live store: every batch is a closed cut, and makes a state of the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stack.kafka import KafkaBroker
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.true_states import TrueStates
from tests.spark_session import running_session
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.spark.datasource.closed_cut import ClosedCut
from tidegate.spark.datasource.tidegate_source import register
from tidegate.subscribe.updates.value_order import values_key

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.together("spark")]

_SEED: Final = 20
_KEYS: Final = {"flights": ("carrier", "flight", "time_hour"), "weather": ("origin", "time_hour")}
_OWN: Final = frozenset({"_table", "_op", "_updated", "_resolved", "_before"})
_ENDED: Final = "the target is away"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with running_session("dataframe") as running:
        register(running)
        yield running


class Target:
    """The target of a consumer of batches: the rows of each table by key, after each batch."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in _KEYS}
        #: Each cut with the tables' rows then.
        self.states: list[tuple[Timestamp, dict[str, list[Row]]]] = []
        self.versions: list[tuple[Any, ...]] = []
        self.away = False

    def apply_batch(self, batch: DataFrame, _: int) -> None:
        """Apply a batch."""
        rows = batch.collect()
        if self.away:
            raise RuntimeError(_ENDED)
        if not rows:
            return
        (cut,) = {row["_resolved"] for row in rows}
        for row in sorted(rows, key=lambda row: row["_updated"]):
            name = row["_table"].rpartition(".")[2]
            key = tuple(row[column] for column in _KEYS[name])
            known = self.tables[name].get(key)
            before = row["_before"]
            assert row["_updated"] <= cut
            assert (None if known is None else _members(known)) == (
                None if before is None else _members(before)
            )
            assert row["_op"] == ("delete" if row["_op"] == "delete" else "update" if known else "insert")
            self.versions.append((name, key, row["_updated"]))
            if row["_op"] == "delete":
                self.tables[name].pop(key, None)  # a store may delete what is not there
            else:
                self.tables[name][key] = row
        self.states.append(
            (_timestamp(cut), {name: list(rows.values()) for name, rows in self.tables.items()})
        )


def _members(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if name not in _OWN}


def _timestamp(number: Decimal) -> Timestamp:
    return parse_decimal(f"{number:.10f}")


def _has_passed(query: StreamingQuery, moment: Timestamp) -> bool:
    """Whether the query's last batch, which may have no rows, is at or above a timestamp."""
    progress = query.lastProgress
    return (
        progress is not None
        and ClosedCut.from_dict(json.loads(progress.sources[0].endOffset)).closed >= moment
    )


def _as_json(value: Any) -> Any:
    """A value of a DataFrame as the feed's JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return Decimal(repr(value)) if isinstance(value, float) else value


def _wait(true: Callable[[], bool], query: StreamingQuery, what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        failure = query.exception()
        assert failure is None, failure
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def _columns(rows: list[Row]) -> tuple[str, ...]:
    return tuple(name for name in rows[0].asDict() if name not in _OWN)


def _require_true(load: LiveLoad, tables: Mapping[str, list[Row]], cut: Timestamp, columns: Any) -> None:
    for name, rows in tables.items():
        found = [tuple(_as_json(row[column]) for column in columns[name]) for row in rows]
        assert sorted(found, key=values_key) == columns["truth", name].rows(cut.next(), columns[name]), (
            name,
            cut,
        )


@pytest.mark.soak  # `make test` has cuts and checkpoints: `tests/contract/test_spark_dataframe.py`
@pytest.mark.timeout(600)
def test_every_batch_makes_a_state_of_the_store_whatever_ends(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, session: SparkSession
) -> None:
    print("seed", _SEED)
    target = Target()
    checkpoint = str(tmp_path / "checkpoint")
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=_SEED, store={"split_every_ms": 2_000}, rows_per_s=100
    ) as load:
        worker = load.start_worker("w0")
        load.create_feed("updated, diff, resolved, initial_scan='yes'")
        options = {
            "bootstrap": broker.bootstrap,
            "app_id": load.app_id,
            "topic_prefix": topic_prefix,
        }

        def start() -> StreamingQuery:
            frame = session.readStream.format("tidegate").options(**options).load()
            return (
                frame.writeStream.foreachBatch(target.apply_batch)
                .option("checkpointLocation", checkpoint)
                .start()
            )

        query = start()
        _wait(lambda: len(target.states) >= 2, query, "two cuts")
        target.away = True  # the target takes no batch, the query ends, and its batch comes again
        with pytest.raises(Exception, match=_ENDED):
            query.awaitTermination(60)
        worker.kill()  # what it had in flight comes again
        load.start_worker("w1")
        target.away = False
        query = start()
        seen = len(target.states)
        _wait(lambda: len(target.states) >= seen + 3, query, "three cuts more")
        report = load.finish()
        _wait(lambda: _has_passed(query, report.covered), query, f"a cut at {report.covered}")
        query.stop()
        expected = list(load.expected())
        state = session.read.format("tidegate").options(**options, as_of=str(report.covered)).load().collect()

    assert len(target.versions) == len(set(target.versions))
    committed = sum(1 for each in expected if (each.scanned_at or each.timestamp) <= target.states[-1][0])
    assert len(target.versions) == committed
    frame_columns = {
        name: tuple(json.loads(each.value)["after"])
        for each in expected
        for name in _KEYS
        if each.topic == f"{topic_prefix}{name}" and each.value and json.loads(each.value)["after"]
    }
    columns: dict[Any, Any] = dict(frame_columns)
    columns |= {("truth", name): TrueStates(expected, f"{topic_prefix}{name}") for name in _KEYS}
    for cut, tables in target.states:
        _require_true(load, tables, cut, columns)
    by_table = {name: [row for row in state if row["_table"].endswith(f".{name}")] for name in _KEYS}
    _require_true(load, by_table, report.covered, columns)
