"""Random histories of a log partition, and two processors in lockstep over them, one of which has a kernel.

Tables have any types, most of them such that the kernel knows them. Rows may be damaged, stand under keys of
other indexes or tenants, or carry a header in front of their value. Everything follows from the seed.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any, Final, NamedTuple

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, intent, txn
from tests.logs import Record
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, OnOversize
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.errors import EncodingError
from tidegate.hlc import Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import ControlRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import CommitIntent, Offset, Op, WriteValue
from tidegate.rows import (
    Column,
    Family,
    Interval,
    Json,
    KeyPart,
    Kind,
    SqlType,
    TableDescriptor,
)
from tidegate.rows.value_frame import CHECKSUM_SIZE, join_header
from tidegate.spans import Span

_EVERYTHING: Final = Span(b"\x02", b"\xff\xfe")
_INT64: Final = 2**63
_TEXTS: Final = ("", "a", 'q"\\', "\x00\x08\x0c\n\r\t\x1f", "é\u2028😀", "%s%%", "long " * 60)
_FLOATS: Final = (
    0.0,
    -0.0,
    1.0,
    100.0,
    1e16,
    1e-5,
    1e-7,
    0.1,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    524_289 / 65_536,  # in the middle of two shortest texts
    -2_879_452_090_733_081 / 4,
)
_DECIMALS: Final = (
    "0",
    "-0",
    "0E-7",
    "0.00",
    "1.50",
    "1E+3",
    "-1E-7",
    "123456789012345678901234567890",
    "NaN",
    "0E-100",
)


def _dyadic(random: Random) -> float:
    """A number of few binary places, of which many lie in the middle of two decimals."""
    return random.randrange(2**53) / 2.0 ** random.randrange(53)


#: Makes a datum of each kind. The last ones are Python's alone.
_DATUMS: Final[dict[Kind, Callable[[Random], Any]]] = {
    Kind.BOOL: lambda r: r.random() < 0.5,
    Kind.INT: lambda r: r.choice((r.randrange(-300, 300), r.randrange(-_INT64, _INT64), -_INT64, _INT64 - 1)),
    Kind.FLOAT: lambda r: r.choice((*_FLOATS, r.uniform(-1e9, 1e9), round(r.uniform(0, 100), 2), _dyadic(r))),
    Kind.DECIMAL: lambda r: Decimal(r.choice((*_DECIMALS, f"{r.randrange(10**9)}E{r.randrange(-20, 20)}"))),
    Kind.STRING: lambda r: r.choice(_TEXTS),
    Kind.BYTES: lambda r: r.randbytes(r.randrange(5)),
    Kind.UUID: lambda r: uuid.UUID(bytes=r.randbytes(16)),
    Kind.DATE: lambda r: r.choice((0, r.randrange(-800_000, 4_000_000), -719_529, -719_528, _INT64 - 1)),
    Kind.TIME: lambda r: r.choice((0, 86_400_000_000, r.randrange(86_400_000_000))),
    Kind.TIMESTAMP: lambda r: r.choice((0, -1, r.randrange(-(2**67), 2**67), r.randrange(2**61) * 1000)),
    Kind.TIMESTAMPTZ: lambda r: r.choice((1, r.randrange(-(2**67), 2**67), r.randrange(2**31) * 10**9)),
    Kind.JSONB: lambda r: Json({"a": [None, True, r.choice(_TEXTS)]}),
    Kind.INTERVAL: lambda r: Interval(r.randrange(-9, 9), r.randrange(-9, 9), r.randrange(-9, 9)),
    Kind.INET: lambda r: ipaddress.ip_interface(f"10.0.{r.randrange(256)}.1/16"),
}
_OF_PYTHON: Final = (Kind.JSONB, Kind.INTERVAL, Kind.INET)
#: Kinds of keys that the kernel leaves to Python.
_ODD_KEYS: Final[list[Kind]] = [Kind.DECIMAL, Kind.FLOAT, Kind.INET]
_IN_KEYS: Final[list[Kind]] = [
    Kind.INT, Kind.INT, Kind.STRING, Kind.UUID, Kind.BYTES, Kind.BOOL, Kind.DATE, Kind.TIME, Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
]  # fmt: skip
_OPTIONS: Final = (
    FeedOptions(),
    FeedOptions(updated=True),
    FeedOptions(updated=True, mvcc_timestamp=True, topic_in_value=True),
    FeedOptions(envelope=Envelope.BARE, mvcc_timestamp=True),
    FeedOptions(envelope=Envelope.BARE),
)
#: Options that the kernel leaves to Python.
_ODD_OPTIONS: Final = (
    FeedOptions(diff=True),
    FeedOptions(key_in_value=True),
    FeedOptions(envelope=Envelope.ROW),
    FeedOptions(envelope=Envelope.KEY_ONLY),
    FeedOptions(envelope=Envelope.UPSERT),
    FeedOptions(on_oversize=OnOversize.KEY_ONLY, max_row_bytes=300),
    FeedOptions(format=Format.CSV),
)


class History(NamedTuple):
    """A log partition, the feeds that are active from its first record on, and one that begins later."""

    records: tuple[Record, ...]
    feeds: tuple[Activate, ...]
    later: Activate
    batch: int


def history(seed: int, ops: int = 250) -> History:
    """The history of a seed, with about so many ops."""
    random = Random(seed)
    tables = [Table(random, 100 + number) for number in range(random.randint(1, 3))]
    log = HandLog(1)
    log.describe(*(table.hand for table in tables))
    log_range = log.open_range(7, _EVERYTHING)
    damage = random.choice((0.0, 0.0, 0.01))
    seconds = 10.0
    while ops > 0:
        count = random.choice((1, 1, 2, 9))
        written: list[Op] = []
        for _ in range(count):
            seconds += 0.25
            written += _ops(random, random.choice(tables), seconds, damage)
        log_range.apply(*written, close=seconds - 5 if random.random() < 0.3 else None)
        ops -= count
        if random.random() < 0.03:
            seconds += 1
            table = random.choice(tables)
            table.alter(random, at(seconds))
            log.describe(table.hand)
    descriptors = [table.first for table in tables]
    feeds = tuple(feed_on(random, descriptors, f"feed-{number}") for number in range(random.randint(1, 3)))
    return History(
        log.partitions[0], feeds, feed_on(random, descriptors, "later"), random.choice((3, 40, 1000))
    )


class Lockstep:
    """The processors of one history: each step of the one is compared with that of the other."""

    def __init__(self, mode: KernelMode = KernelMode.ON) -> None:
        self._python = PartitionProcessor(0, 1)
        self._native = PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode)))
        self.rows = 0

    def run(self, history: History) -> None:
        """Step a history. Fails at the first step whose results differ in anything."""
        batches = [
            history.records[first : first + history.batch]
            for first in range(0, len(history.records), history.batch)
        ]
        for number, feed in enumerate(history.feeds):
            self._control(number, feed)
        for number, batch in enumerate(batches):
            if number == len(batches) // 2:
                self._control(len(history.feeds), history.later)
            self._require_equal(self._python.step(batch), self._native.step(batch))

    def _control(self, offset: int, feed: Activate) -> None:
        message = [ControlRecord(Offset(offset), feed)]
        self._require_equal(self._python.control(message), self._native.control(message))

    def _require_equal(self, python: StepResult, native: StepResult) -> None:
        assert native.outputs == python.outputs
        assert native.changes == python.changes
        assert native == python
        self.rows += sum(map(len, python.outputs.values()))


class Table:
    """A table that changes now and then."""

    def __init__(self, random: Random, table_id: int) -> None:
        known: list[Kind] = [kind for kind in _DATUMS if kind not in _OF_PYTHON]
        kinds = random.choices(known, k=random.randint(1, 8))
        if random.random() < 0.2:
            kinds.append(random.choice(_OF_PYTHON))
        odd_key = random.random() < 0.1
        key_kinds: list[Kind] = _ODD_KEYS if odd_key else _IN_KEYS
        keys = random.choices(key_kinds, k=random.randint(1, 2))
        columns = tuple(
            Column(
                number + 1,
                random.choice(("c", "%s", 'q"', "ü")) + str(number),
                SqlType(kind),
                number >= len(keys),
            )
            for number, kind in enumerate([*keys, *kinds])
        )
        self.first = TableDescriptor(
            id=table_id,
            name=f"t{table_id}",
            version=1,
            modified=at(0),
            columns=columns,
            primary_key=tuple(KeyPart(number + 1, random.random() < 0.1) for number in range(len(keys))),
            families=(Family(0, "primary", tuple(column.id for column in columns)),),
        )
        self.hand = HandTable(self.first)

    def alter(self, random: Random, modified: Timestamp) -> None:
        """Begin a version with one more column, or with one column less that is public."""
        before = self.hand.descriptor
        columns = list(before.columns)
        if random.random() < 0.5:
            number = len(columns) + random.randint(1, 20)
            columns.append(Column(number, f"n{number}", SqlType(random.choice([*_DATUMS]))))
        elif len(columns) > len(before.primary_key):
            columns[-1] = replace(columns[-1], public=False)
        families = (Family(0, "primary", tuple(column.id for column in columns)),)
        self.hand = HandTable(
            replace(
                before,
                version=before.version + 1,
                modified=modified,
                columns=tuple(columns),
                families=families,
            )
        )

    def pair(self, random: Random) -> tuple[bytes, bytes]:
        """Key and value of a row."""
        while True:
            try:
                return self.hand.pair(*self._datums(random))
            except EncodingError:
                continue  # an interval beyond its key form, for example

    def _datums(self, random: Random) -> list[Any]:
        in_key = {part.column_id for part in self.hand.descriptor.primary_key}
        return [
            None if column.id not in in_key and random.random() < 0.15 else _DATUMS[column.type.kind](random)
            for column in self.hand.descriptor.columns
            if column.in_rows
        ]


def _ops(random: Random, table: Table, seconds: float, damage: float) -> list[Op]:
    key, value = table.pair(random)
    if random.random() < 0.1:
        value = b""
    if random.random() < 0.3 and value:
        value = bytes(CHECKSUM_SIZE) + value[CHECKSUM_SIZE:]
    if random.random() < 0.1:
        value = join_header(b"\x18\x00", value)
    if random.random() < 0.05:
        key = key[:1] + b"\x8b" + key[2:]  # of another index
    if random.random() < 0.05:
        key = b"\xfe\x92" + key  # of a tenant; its checksum is wrong then, where it has one
        value = value[:0] if value[:CHECKSUM_SIZE] != bytes(CHECKSUM_SIZE) else value
    if random.random() < damage:
        key, value = damaged(random, key), damaged(random, value)
    omitted = random.random() < 0.05
    if random.random() < 0.5:
        return [WriteValue(key, at(seconds), value, None, omitted)]
    number = random.randrange(2**64)
    return [intent(number, seconds), CommitIntent(txn(number), key, at(seconds), value, None, omitted)]


def damaged(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) + 1)
    return random.choice(
        (
            data,
            data[:place],
            data[:place] + random.randbytes(1) + data[place + 1 :],
            data[:place] + random.randbytes(2) + data[place:],
            data[:place] + b"\xff" * 9 + data[place:],
        )
    )


def feed_on(random: Random, tables: list[TableDescriptor], feed_id: str) -> Activate:
    options = random.choice(_ODD_OPTIONS if random.random() < 0.12 else _OPTIONS)
    wanted = random.sample(tables, random.randint(1, len(tables)))
    start = at(random.choice((0.0, 20.0, 35.25)))
    return activation(
        wanted, options, start=start, feed_id=feed_id, output_partitions=random.choice((1, 3, 16))
    )
