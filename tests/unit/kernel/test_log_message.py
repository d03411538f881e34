"""The kernel reads log records as Python does; it never reads what Python refuses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from tests.logs import Record
from tests.unit.kernel.histories import damaged
from tests.unit.kernel.log_histories import log_history
from tidegate.kernel.artefact import compiled
from tidegate.kernel.instance import Instance
from tidegate.kernel.log_message import read_named, write_records
from tidegate.processor.feeds.log_kernel import Named
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, DeleteRange, Entry, Heartbeat, Trigger, WriteValue

pytest.importorskip("wasmtime")

_MOST_BYTES: Final = 1 << 20
_DAMAGED: Final = 3_000


def _instance() -> Instance:
    found = compiled()
    assert found is not None
    return Instance(*found)


def _read(instance: Instance, records: Sequence[Record]) -> Named:
    message, count = write_records(records, _MOST_BYTES)
    return read_named(instance.read(message, count))


def _is_plain(entry: Entry) -> bool:
    """Whether the kernel may read it: the ops commit with their values, and no trigger follows."""
    return isinstance(entry, Heartbeat) or (
        isinstance(entry, Command) and entry.ops is not None and entry.trigger is Trigger.NONE
    )


def _names(entry: Entry) -> list[bytes]:
    ops = (entry.ops or ()) if isinstance(entry, Command) else ()
    ids = [op.txn_id for op in ops if not isinstance(op, WriteValue | DeleteRange)]
    return list(dict.fromkeys(ids))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_records_are_read_as_python_reads_them_or_not_at_all(seed: int) -> None:
    random, instance = Random(seed), _instance()
    records = [record for record in log_history(seed).records if record.value is not None]
    read = 0
    for _ in range(_DAMAGED):
        record = random.choice(records)
        record = record._replace(value=damaged(random, record.value or b""))
        named = _read(instance, [record])
        if named.records:
            read += 1
            entry = decode_entry(record.key, record.value)
            assert _is_plain(entry)
            assert named.range_ids == [entry.range_id]  # type: ignore[union-attr]
            assert named.txn_ids == _names(entry)
    assert read


def test_a_prefix_ends_before_a_record_without_a_key_or_a_value() -> None:
    record = Record(0, bytes(8), b"v", 0)
    for odd in (record._replace(key=None), record._replace(value=None), record._replace(key=b"short")):
        assert write_records([record, odd, record], _MOST_BYTES)[1] == 1


def test_a_message_has_so_many_bytes_and_one_record_at_least() -> None:
    records = [Record(number, bytes(8), b"0123456789", 0) for number in range(5)]
    assert write_records(records, 25)[1] == 2
    assert write_records(records, 1)[1] == 1
