"""An exception in a feed's row writer fails the feed, and ends no process (U1 of docs/security.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.errors import BrokerUnavailable, DeliveryError, SettingsError
from tidegate.hlc import Timestamp
from tidegate.processor.batch import OutputRecord
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.feed_row_writer import FeedRowWriter
from tidegate.worker.output.outlet import Outlet, OutletChange, OutletLimits
from tidegate.worker.output.worker_sinks import WorkerSinks
from tidegate.worker.process.machine import RealMachine
from tidegate.worker.process.settings import Settings

_FEED: Final = FeedId("odd")
_ROWS: Final = [OutputRecord("topic", 0, b"key", b"value", 1, [])]


class Writer:
    """A row writer that raises ``error`` where ``breaks`` says."""

    def __init__(self, breaks: str, error: Exception) -> None:
        self._breaks, self._error = breaks, error
        self._break("open")

    @property
    def is_over(self) -> bool:
        self._break("is_over")
        return False

    @property
    def is_held(self) -> bool:
        self._break("is_held")
        return False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        self._break("send")
        return len(rows)

    def _break(self, where: str) -> None:
        if where == self._breaks:
            raise self._error


@pytest.fixture
def limits(tmp_path: Path) -> OutletLimits:
    return OutletLimits(tmp_path, 1 << 20, 1 << 20, 1.0, 1.0)


def _looked_at(limits: OutletLimits, open_writer: Any) -> tuple[OutletChange | None, str]:
    """Give an outlet a row; return what the partition is told of the feed, and why."""

    async def main() -> tuple[OutletChange | None, str]:
        outlet = Outlet(_FEED, open_writer, limits, lambda: None)
        outlet.queue_rows(_ROWS, outlet.barrier(1))
        outlet.hand_over()
        found = outlet.look(0.0) or outlet.look(0.1)
        outlet.hand_over()
        return found, str(outlet.refusal)

    return asyncio.run(main())


@pytest.mark.parametrize("breaks", ["open", "is_over", "is_held", "send"])
def test_an_exception_that_nobody_foresaw_refuses_the_rows_of_its_feed(
    breaks: str, limits: OutletLimits
) -> None:
    change, why = _looked_at(limits, lambda: Writer(breaks, ArithmeticError("an odd definition")))
    assert change is OutletChange.REFUSE
    assert why.startswith("the feed's rows cannot be handed over: tidegate cannot deal with it, which is a")
    assert "ArithmeticError (test_contained_writer.py" in why


@pytest.mark.parametrize("breaks", ["open", "send"])
@pytest.mark.parametrize(
    "error",
    [
        OSError("the disk is full"),
        MemoryError(),
        DeliveryError("fenced"),
        BrokerUnavailable("Kafka is away"),
        SettingsError("no certificate"),
    ],
)
def test_faults_of_the_process_and_its_settings_fail_no_feed(
    breaks: str, error: Exception, limits: OutletLimits
) -> None:
    with pytest.raises(type(error)):
        _looked_at(limits, lambda: Writer(breaks, error))


@pytest.fixture
def sinks() -> Iterator[WorkerSinks]:
    settings = Settings(bootstrap_servers="127.0.0.1:9")
    with ThreadPoolExecutor(1) as threads:
        found = WorkerSinks(settings, WorkerTopicAdmin(settings), threads, RealMachine())
        with closing(found):
            yield found


def _odd_definitions() -> Iterator[FeedDefinition]:
    """Definitions that no command stores, and whoever may write to the jobs topic can."""
    plain = activation([HandTable.of(104, "plain").descriptor]).definition
    for headers in ('{"a": "secret://BAD NAME"}', '{"a": 1'):
        yield replace(plain, options=replace(plain.options, extra_headers=headers))


@pytest.mark.parametrize("definition", [*_odd_definitions()], ids=["bad secret", "no JSON"])
def test_a_stored_definition_that_nobody_can_follow_fails_its_feed(
    definition: FeedDefinition, sinks: WorkerSinks, limits: OutletLimits
) -> None:
    state = StateRecord(definition.id, FIRST_EPOCH, FeedState.RUNNING, Timestamp(1))
    view = FeedView(definition, state=state)
    change, why = _looked_at(limits, lambda: FeedRowWriter(sinks, definition, lambda: view))
    assert change is OutletChange.REFUSE, why
