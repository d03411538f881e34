"""The shop: a schema change in the middle of a log that keeps the contract."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sim.check import check_history, check_log
from sim.log.history import History
from sim.log.sink import ListSink, WrittenRecord
from sim.options import StoreOptions
from sim.simulation import Simulation
from sim.workloads.shop import ADDED_COLUMN, Shop, ShopOptions
from tests.examples import examples
from tests.strategies import BASE_NS, store_options
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows import Catalog, decode_descriptor

_OPTIONS = ShopOptions(items=20, alter_at=30)


def _simulated(seed: int, options: StoreOptions) -> tuple[list[WrittenRecord], History]:
    sink, history = ListSink(), History()
    simulation = Simulation(Shop(_OPTIONS, seed), sink, history, options, seed=seed, base_ns=BASE_NS)
    simulation.run(60)
    simulation.finish()
    return sink.records, history


@examples(7)
@given(st.integers(0, 2**32), store_options())
def test_a_schema_change_keeps_the_log_contract(seed: int, options: StoreOptions) -> None:
    records, history = _simulated(seed, options)
    assert check_log(records, options.partitions) == []
    assert check_history(records, history) == []


def test_rows_from_the_change_on_have_the_new_column() -> None:
    records, history = _simulated(3, StoreOptions())
    catalog = Catalog()
    for record in records:
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, DescriptorUpdate):
            catalog.add(decode_descriptor(entry.descriptor))
    changed = list(catalog.descriptors())[1].modified
    notes = {False: set[object](), True: set[object]()}
    for version in history:
        row = catalog.at(version.table_id, version.timestamp).decode(version.key, version.value)
        assert row is not None
        if row.values is not None:
            columns = [column.name for column in row.table.columns]
            assert (ADDED_COLUMN in columns) == (version.timestamp >= changed)
            notes[version.timestamp >= changed].add(row.values[-1])
    assert any(str(note).startswith("note ") for note in notes[True])
