"""The promise, on simulated stores: a marker never lies, and no row is lost or invented."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.workloads.bank import Bank, BankOptions
from tests.examples import examples
from tests.feeds import activation
from tests.logs import EVENTFUL_MIX, SimulatedLog, eventful_store, simulate
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.reference import Emitted, OutputPartition, ReferenceEngine
from tidegate.rows import TableCodec


def _bank_log(seed: int, transactions: int = 60) -> SimulatedLog:
    bank = Bank(BankOptions(accounts=20, ranges=5, outcomes=EVENTFUL_MIX), seed)
    return simulate(bank, eventful_store(3), seed=seed, transactions=transactions)


def _run(log: SimulatedLog, *, batch: int, start: Timestamp = ZERO) -> ReferenceEngine:
    engine = ReferenceEngine(len(log.partitions), [activation(log.tables, start=start)])
    longest = max(map(len, log.partitions))
    for first in range(0, longest, batch):
        for number, records in enumerate(log.partitions):
            engine.step(number, records[first : first + batch])
    return engine


def _expected(log: SimulatedLog, start: Timestamp) -> set[tuple[str, Timestamp, bool]]:
    codec = TableCodec(log.tables[0])
    found = set()
    for version in log.history:
        row = codec.decode(version.key, version.value)
        assert row is not None
        if version.timestamp > start:
            found.add((str(list(row.key)), version.timestamp, row.values is None))
    return found


def _rows(records: Iterable[Emitted]) -> Iterable[tuple[Emitted, RowRecord | MarkerRecord]]:
    decoder = JsonDecoder(Envelope.WRAPPED)
    return ((record, decoder.decode(record.key, record.value)) for record in records)


@given(seed=st.integers(0, 2**32), batch=st.sampled_from([1, 7, 50, 10_000]), fraction=st.floats(0, 0.9))
@examples(12)
def test_exactly_the_committed_versions_above_the_start_come_out(
    seed: int, batch: int, fraction: float
) -> None:
    log = _bank_log(seed)
    times = sorted({version.timestamp for version in log.history})
    start = times[int(fraction * len(times))]
    engine = _run(log, batch=batch, start=start)
    emitted = [
        (record.key.decode(), row.updated, row.deleted)
        for records in engine.output.values()
        for record, row in _rows(records)
        if isinstance(row, RowRecord) and record.key is not None
    ]
    assert len(emitted) == len(set(emitted)), "a row was emitted twice"
    assert set(emitted) == _expected(log, start)
    assert not engine.incidents
    assert engine.high_water(FeedId("feed")) >= times[-1].floor()


@given(seed=st.integers(0, 2**32), batch=st.sampled_from([1, 7, 50, 10_000]))
@examples(12)
def test_no_row_follows_a_marker_that_covers_it(seed: int, batch: int) -> None:
    engine = _run(_bank_log(seed), batch=batch)
    for records in engine.output.values():
        last = ZERO
        for _, row in _rows(records):
            if isinstance(row, MarkerRecord):
                assert row.resolved > last, "a marker fell or was repeated"
                last = row.resolved
            else:
                assert row.updated is not None
                assert row.updated > last
        assert last > ZERO, "no marker"


@given(seed=st.integers(0, 2**32))
@examples(7)
def test_timestamps_of_a_key_rise(seed: int) -> None:
    engine = _run(_bank_log(seed), batch=10)
    for records in engine.output.values():
        last: dict[bytes, Timestamp] = {}
        for record, row in _rows(records):
            if isinstance(row, RowRecord) and record.key is not None and row.updated is not None:
                assert row.updated > last.get(record.key, ZERO)
                last[record.key] = row.updated


@pytest.mark.parametrize("seed", [1, 2])
def test_the_batch_size_changes_nothing_but_the_markers(seed: int) -> None:
    log = _bank_log(seed)
    by_one, at_once = _run(log, batch=1), _run(log, batch=10_000)
    assert _per_key(by_one.output) == _per_key(at_once.output)


def _per_key(
    output: dict[OutputPartition, list[Emitted]],
) -> dict[tuple[OutputPartition, bytes], list[Emitted]]:
    found: dict[tuple[OutputPartition, bytes], list[Emitted]] = {}
    for place, records in output.items():
        for record in records:
            if record.key is not None:
                found.setdefault((place, record.key), []).append(record)
    return found
