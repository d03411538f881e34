"""Values that stand in write batches alone: another log, which reads the same."""

from __future__ import annotations

from dataclasses import replace

from sim.options import StoreOptions
from sim.workloads.random import RandomOptions
from tests.strategies import SimCase, simulate_case
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, Entry

_CASE = SimCase(
    seed=4, options=StoreOptions(partitions=2), workload=RandomOptions(), transactions=60, push_every=60
)
_POINTING = replace(_CASE, options=replace(_CASE.options, batch_values_fraction=0.9))


def _read(case: SimCase) -> list[Entry]:
    entries = [decode_entry(record.key, record.value) for record in simulate_case(case).records]
    return [entry._replace(write_batch=b"") if isinstance(entry, Command) else entry for entry in entries]


def _ops_without_value(case: SimCase) -> int:
    missing = 0
    for record in simulate_case(case).records:
        for op in pb.LogEntry.FromString(record.value).command.logical_op_log.ops:
            kind = op.WhichOneof("op")
            if kind in ("write_value", "commit_intent"):
                missing += not getattr(op, kind).HasField("value")
    return missing


def test_ops_that_point_to_their_batch_have_no_value() -> None:
    assert _ops_without_value(_CASE) == 0
    assert _ops_without_value(_POINTING) > 50


def test_what_they_point_to_is_what_was_written() -> None:
    outcome = simulate_case(_POINTING)
    written = {(version.key, version.timestamp): version.value for version in outcome.history}
    read = {
        (op.key, op.timestamp): op.value  # type: ignore[union-attr]
        for entry in _read(_POINTING)
        if isinstance(entry, Command)
        for op in entry.ops or ()
        if hasattr(op, "value")
    }
    assert read == written
