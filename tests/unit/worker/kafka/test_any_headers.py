"""Records whose headers have names that are no text: aiokafka's parser ends at them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, FetchResult
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c_py
from faust.types import TP

from tidegate.worker.kafka.any_headers import FetchedRecords, ReadablePartition, read_any_headers
from tidegate.worker.kafka.transport import BatchConsumerThread

_TP: Final = TopicPartition("log", 0)
_NAME: Final = b"NAME"
_GZIP: Final = 1
_ABORTS: Final = 77  # the id of a producer


def _batch(first: int, count: int, *bad: int, producer: int = -1, codec: int = 0) -> bytes:
    """A batch of records from offset ``first`` on. The ``bad`` ones have a header whose name is no text."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=producer >= 0,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=1_000_000,
    )
    for number in range(count):
        headers = [(_NAME.decode(), b"x")] if first + number in bad else [("range", b"1")]
        builder.append(number, timestamp=1, key=b"k", value=b"row %d" % (first + number), headers=headers)
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, first)
    return _checked(raw.replace(_NAME, b"\xff\xfe\xfd\xfc"))


def _checked(raw: bytearray) -> bytes:
    struct.pack_into(">I", raw, 17, calc_crc32c_py(bytes(raw[21:])))
    return bytes(raw)


def _read(
    raw: bytes, start: int, most: int, aborted: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, bytes]]:
    """Return what a worker's consumer gives of these bytes: offsets and values, in fetches of ``most``
    records."""

    async def run() -> list[tuple[int, bytes]]:
        subscriptions = SubscriptionState()
        subscriptions.assign_from_user({_TP})
        assignment = subscriptions.subscription.assignment
        state = assignment.state_value(_TP)
        state.reset_to(start)
        state.highwater = 100
        fetching = Fetcher.__new__(Fetcher)
        fetching._subscriptions, fetching._records = subscriptions, {}
        fetching._wait_consume_future = None
        fetching._notify = lambda _: None
        records = fetcher.MemoryRecords(raw)
        partition = fetcher.PartitionRecords(
            _TP, records, list(aborted), start, None, None, True, READ_COMMITTED
        )
        fetching._records[_TP] = FetchResult(
            _TP, assignment=assignment, partition_records=partition, backoff=0
        )
        consumer: Any = SimpleNamespace(_subscription=subscriptions, _fetcher=fetching)
        thread = BatchConsumerThread.__new__(BatchConsumerThread)
        found: list[tuple[int, bytes]] = []
        at = start
        while batches := await thread._drain(consumer, frozenset({TP(*_TP)}), most):
            (batch,) = batches
            assert batch.start == at
            at = batch.end
            found += [(record.offset, record.value or b"") for record in batch.records]
        return found

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def as_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "MemoryRecords", FetchedRecords)
    monkeypatch.setattr(fetcher, "PartitionRecords", ReadablePartition)


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("start", [0, 2, 5, 11])
def test_every_record_is_read_once_whatever_its_headers_are_called(start: int, most: int) -> None:
    raw = _batch(0, 5, 3) + _batch(5, 4) + _batch(9, 6, 9, 12, 14)
    assert _read(raw, start, most) == [(offset, b"row %d" % offset) for offset in range(start, 15)]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_records_of_aborted_transactions_stay_left_out(most: int) -> None:
    raw = (
        _batch(0, 3) + _batch(3, 4, producer=_ABORTS) + _batch(7, 5, 9) + _batch(12, 2, 12, producer=_ABORTS)
    )
    read = _read(raw, 0, most, [(_ABORTS, 3)])
    assert [offset for offset, _ in read] == [0, 1, 2, 7, 8, 9, 10, 11]


def test_the_workers_transport_reads_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    read_any_headers()
    assert (fetcher.MemoryRecords, fetcher.PartitionRecords) == (FetchedRecords, ReadablePartition)
