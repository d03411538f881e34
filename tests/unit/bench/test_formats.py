"""The log of updates, and what is read from a worker's metrics."""

from __future__ import annotations

from bench.formats import registrations
from bench.workload import updates_log
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, CommitIntent, WriteValue


def test_every_op_carries_the_version_that_it_replaces() -> None:
    log = updates_log(3_000, 1, seed=1)
    newest: dict[bytes, bytes] = {}
    updates = 0
    for record in log.records:
        entry = decode_entry(record.key, record.value)
        for op in (entry.ops or ()) if isinstance(entry, Command) else ():
            if isinstance(op, WriteValue | CommitIntent):
                assert op.prev_value == newest.get(op.key, b"")
                assert op.value is not None
                updates += op.key in newest
                newest[op.key] = op.value
    assert len(newest) + updates == log.rows


def test_registrations_are_summed_over_their_labels() -> None:
    text = (
        "# TYPE tidegate_schema_registrations_total counter\n"
        'tidegate_schema_registrations_total{feed="a"} 2.0\n'
        "tidegate_schema_registrations_total 3.0\n"
        "tidegate_schema_registrations_created 1.7e9\n"
    )
    assert registrations(text) == 5
