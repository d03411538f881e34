"""The whole step of a partition with two live feeds, of which one reads a log that is damaged.

The other feed has a table and a range of its own, whose records stand between the damaged ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from random import Random
from typing import Final

from tests.feeds import activation
from tests.fuzz.parts import joined, parted
from tests.fuzz.target import Target, require
from tests.fuzz.targets.log_entries import RECORDS, TABLE, LogBytes, changed
from tests.hand_log import HandLog, HandRange, HandTable
from tests.unit.processor.driving import Driven, StoredState
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import OutputRecord, StepResult
from tidegate.processor.checkpoint import encode_checkpoint, split_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.raftlog.decode import decode_entry, decode_key
from tidegate.raftlog.entry import BROADCAST, Snapshot
from tidegate.raftlog.request import encode_request

_HOSTILE: Final = FeedId("hostile")
_HEALTHY: Final = FeedId("healthy")
_REGISTRY: Final = "http://registry"
_AVRO: Final = FeedOptions(format=Format.AVRO, confluent_schema_registry=_REGISTRY)
_OPTIONS: Final = (
    FeedOptions(updated=True, resolved_interval_ns=0),
    FeedOptions(diff=True, mvcc_timestamp=True, key_in_value=True),
    FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema,source"),
    FeedOptions(envelope=Envelope.BARE),
    _AVRO,
    replace(_AVRO, envelope=Envelope.UPSERT),
)
#: Far from all numbers that a changed field may get, so that no damaged record is about them.
_TABLE_ID, _RANGE_ID = 3_105, 3_002
_CAUSE_CHARACTERS: Final = 1_100
_ROW_BYTES: Final = 1_000_000
_ONE_BY_ONE: Final = 0x80
#: Half of the inputs: the kernel takes them as well, and every step compares what both make of it.
_BY_KERNEL: Final = 0x40
_CHECKED: Final = kernels_for(KernelMode.CHECK)


def _draw(chance: Random) -> bytes:
    """A log whose first records are sound, with damaged ones among the others."""
    records: list[LogBytes] = list(RECORDS[: chance.randrange(2, len(RECORDS) + 1)])
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(records))
        match chance.randrange(8):
            case 0:
                del records[at]
            case 1:
                records.insert(at, chance.choice(RECORDS))
            case 2 | 3:
                records.insert(at, changed(chance, records[at]))
            case _:
                records[at] = changed(chance, records[at])
        if not records:
            break
    how = bytes([chance.randrange(256)])
    return joined([how, *chain.from_iterable(records)])


def _run(data: bytes) -> None:
    how, *rest = [*parted(data)] or [None]
    number = how[0] if how else 0
    records = [LogBytes(key, value) for key, value in zip(rest[::2], rest[1::2], strict=False)]
    driven = _driven(number, records)
    _require_sound(driven)
    if not any(_concerns_the_healthy_range(each) or _claims_its_keys(each) for each in records):
        rows = list(_rows(driven.results))
        expected = _expected(number & _ONE_BY_ONE, len(records))
        require(rows == expected, "a healthy feed is given other rows than without the damaged records")
    restored = Driven.restored(driven.state)
    require(_shown(restored) == _shown(driven), "state behind the log is restored as another one")


def _concerns_the_healthy_range(record: LogBytes) -> bool:
    """Whether it is of that range, or cannot be read and may be of any: then all of them are quarantined."""
    range_id = decode_key(record.key)
    if range_id not in (None, BROADCAST):
        return range_id == _RANGE_ID
    try:
        decode_entry(*record)
    except MalformedEntry:
        return True
    return False


def _claims_its_keys(record: LogBytes) -> bool:
    """Whether it is a Snapshot whose range has the healthy one's keys: one of the two is wrong then."""
    try:
        entry = decode_entry(*record)
    except MalformedEntry:
        return False
    return isinstance(entry, Snapshot) and entry.span.overlaps(_HEALTHY_TABLE.span)


def _driven(number: int, hostile: Iterable[LogBytes | None]) -> Driven:
    kernel = _CHECKED if number & _BY_KERNEL else None
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernel)))
    driven.control(
        activation([TABLE.descriptor], _options(number), start=ZERO, feed_id=_HOSTILE),
        activation([_HEALTHY_TABLE.descriptor], start=ZERO, feed_id=_HEALTHY),
    )
    log = HandLog(partitions=1)
    log.describe(_HEALTHY_TABLE)
    healthy = log.open_range(_RANGE_ID, _HEALTHY_TABLE.span)
    for place, record in enumerate(hostile):
        if record is not None:
            log.write_bytes(0, *record)
        _write_healthy(healthy, place)
    records = log.partitions[0]
    driven.run(records, 1 if number & _ONE_BY_ONE else len(records))
    return driven


def _write_healthy(healthy: HandRange, place: int) -> None:
    seconds = 1 + place / 2
    healthy.apply(_HEALTHY_TABLE.put(seconds, place, "well"), close=seconds - 0.1)


def _options(number: int) -> FeedOptions:
    return _OPTIONS[number % len(_OPTIONS)]


@cache
def _expected(number: int, count: int) -> list[OutputRecord]:
    """Return what the healthy feed is given where nothing stands between its records."""
    return list(_rows(_driven(number, [None] * count).results))


def _rows(results: Iterable[StepResult]) -> Iterator[OutputRecord]:
    for result in results:
        yield from result.outputs.get(_HEALTHY, ())
        for row in result.unframed.get(_HEALTHY, ()):
            raise AssertionError(f"a row without a schema: {row}")


def after(records: Iterable[LogBytes]) -> StoredState:
    """The state behind these records."""
    return _driven(0, records).state


def _require_sound(driven: Driven) -> None:
    acks = list(chain.from_iterable(result.acks for result in driven.results))
    said = [*driven.causes, *(ack.reason for ack in acks if isinstance(ack, Failed))]
    for sentence in said:
        require("which is a defect" not in sentence, sentence)
        require(len(sentence) <= _CAUSE_CHARACTERS, f"{len(sentence)} characters: {sentence[:100]}...")
    largest = max(map(len, driven.state.values()), default=0)
    require(largest <= _ROW_BYTES, f"a row of state has {largest} bytes")
    for result in driven.results:
        _write_messages(result)


def _write_messages(result: StepResult) -> None:
    """Encode what a step tells others: all of it has a form in bytes."""
    if result.checkpoint is not None:
        for part in split_checkpoint(result.checkpoint):
            encode_checkpoint(part)
    for exchange in result.exchanges:
        encode_exchange(exchange)
    for request in result.requests:
        encode_request(request)
    for ack in result.acks:
        ack.to_bytes()


def _shown(driven: Driven) -> object:
    """Return what a processor would say of its ranges and feeds; feeds are in order of their names once
    restored."""
    checkpoint = driven.processor.full_checkpoint()
    return replace(checkpoint, feeds=tuple(sorted(checkpoint.feeds)))


_HEALTHY_TABLE: Final = HandTable.of(_TABLE_ID, "healthy")

TARGETS: Final = (Target("steps", _draw, _run, (), weight=4),)
