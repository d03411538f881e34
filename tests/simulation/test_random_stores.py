"""The promise over random stores: every outcome of transactions, skewed clocks, pushes, random types."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.logs import Record
from tests.strategies import SimCase, SimOutcome, sim_cases, simulate_case
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.reference import ReferenceEngine
from tidegate.rows import TableDescriptor, decode_descriptor

_DECODER = JsonDecoder(Envelope.WRAPPED)


def _tables(outcome: SimOutcome) -> list[TableDescriptor]:
    return [decode_descriptor(update.descriptor) for update in outcome.simulation.store.descriptors]


def _follow(case: SimCase, outcome: SimOutcome, batch: int) -> ReferenceEngine:
    """The engine after the whole log, its partitions taken in turns of ``batch`` records."""
    partitions: list[list[Record]] = [[] for _ in range(case.options.partitions)]
    for record in outcome.records:
        log = partitions[record.partition]
        log.append(Record(len(log), record.key, record.value, record.record_time_ms))
    engine = ReferenceEngine(len(partitions), [activation(_tables(outcome))])
    for first in range(0, max(map(len, partitions)), batch):
        for number, records in enumerate(partitions):
            engine.step(number, records[first : first + batch])
    return engine


@given(case=sim_cases(max_transactions=40), batch=st.sampled_from([1, 5, 1_000]))
@examples(15)
def test_what_comes_out_is_what_was_committed_and_no_marker_lies(case: SimCase, batch: int) -> None:
    outcome = simulate_case(case)
    engine = _follow(case, outcome, batch)
    assert not engine.incidents
    emitted: Counter[tuple[str, Timestamp | None]] = Counter()
    for place, records in engine.output.items():
        marker = ZERO
        for record in records:
            row = _DECODER.decode(record.key, record.value)
            if isinstance(row, MarkerRecord):
                assert row.resolved > marker
                marker = row.resolved
            elif isinstance(row, RowRecord):
                assert row.updated is not None
                assert row.updated > marker
                emitted[place.topic, row.updated] += 1
    names = {table.id: table.name for table in _tables(outcome)}
    assert emitted == Counter((names[version.table_id], version.timestamp) for version in outcome.history)


@given(case=sim_cases(max_transactions=40))
@examples(7)
def test_a_drained_store_lets_its_feed_drain(case: SimCase) -> None:
    outcome = simulate_case(case)
    engine = _follow(case, outcome, batch=1_000)
    last = max((version.timestamp for version in outcome.history), default=ZERO)
    assert engine.high_water(FeedId("feed")) >= last
