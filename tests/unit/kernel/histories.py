"""Random histories of a log partition, and two processors in lockstep over them, one of which has a kernel.

Tables have any types, most of them such that the kernel knows them. Rows may be damaged, stand under keys of
other indexes or tenants, or carry a header in front of their value. Everything follows from the seed.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from random import Random
from typing import Any, Final, NamedTuple

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, intent, txn
from tests.logs import Record
from tests.unit.processor.stored_ranges import require_rows_of_ranges
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
    Box2D,
    Column,
    Family,
    Interval,
    Json,
    KeyPart,
    Kind,
    SqlType,
    TableDescriptor,
    TimeTz,
)
from tidegate.rows.enum_labels import members_from_labels
from tidegate.rows.types import JsonValue
from tidegate.rows.value_frame import CHECKSUM_SIZE, join_header, seal
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
    "Infinity",
    "-Infinity",
    "0E-100",
)
_ADDRESSES: Final = (
    "10.0.0.1/16",
    "0.0.0.0/0",
    "255.255.255.255/32",
    "::/0",
    "::1/128",
    "2001:db8::a:0:0:1/64",
    "1:0:0:2:0:0:3:4/127",
    "::ffff:10.1.2.3/128",
    "::a01:203/128",
)
_DOCUMENTS: Final[tuple[JsonValue, ...]] = (
    None,
    True,
    "",
    Decimal("-1.50"),
    Decimal("0E-100"),
    [],
    {},
    {"b": 'q"\\', "a": [None, False, Decimal("1E+3"), {"ü": []}], "": {}},
    [[[["deep"]]]],
    {f"{number}": Decimal(number) for number in range(70)},
)
_LABELS: Final = tuple(f'low"{number}' for number in range(5))
_ENUM: Final = SqlType(Kind.ENUM, name="grade", members=members_from_labels([*_LABELS]))


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
    Kind.JSONB: lambda r: Json(r.choice(_DOCUMENTS)),
    Kind.INTERVAL: lambda r: Interval(
        r.choice((0, r.randrange(-30, 30))),
        r.choice((0, r.randrange(-9, 9))),
        r.choice((0, -5, 999, r.randrange(-(2**50), 2**50))),
    ),
    Kind.INET: lambda r: ipaddress.ip_interface(r.choice(_ADDRESSES)),
    Kind.TIMETZ: lambda r: TimeTz(r.randrange(86_400_000_001), r.choice((0, -7200, 5400, 57_600, 1))),
    Kind.BIT: lambda r: "".join(r.choices("01", k=r.choice((0, 1, 63, 64, 65, 130)))),
    Kind.OID: lambda r: r.randrange(2**32),
    Kind.PG_LSN: lambda r: r.choice((0, r.randrange(2**64), 2**64 - 1)),
    Kind.ENUM: lambda r: r.choice(_LABELS),
    Kind.COLLATED_STRING: lambda r: r.choice(_TEXTS),
    Kind.VECTOR: lambda r: (1.0, -0.5),
    Kind.BOX2D: lambda r: Box2D(0.0, 1.0, 0.5, 2.0),
}
_OF_PYTHON: Final = (Kind.VECTOR, Kind.BOX2D)
#: Kinds that an array may have.
_ELEMENTS: Final[list[Kind]] = [kind for kind in _DATUMS if kind not in (Kind.BOX2D, Kind.VECTOR)]
#: Kinds without a form in Avro.
_WITHOUT_AVRO: Final = (Kind.OID, Kind.VECTOR)
#: Widths of numbers, in bits.
_WIDTHS: Final = {Kind.INT: (16, 32, 64), Kind.FLOAT: (32, 64)}
_FLOAT4_BITS: Final = 32
_FLOAT4: Final = struct.Struct("<f")
#: Kinds of keys that the kernel leaves to Python.
_ODD_KEYS: Final[list[Kind]] = [Kind.BIT, Kind.BOX2D]
_IN_KEYS: Final[list[Kind]] = [
    Kind.INT, Kind.INT, Kind.STRING, Kind.UUID, Kind.BYTES, Kind.BOOL, Kind.DATE, Kind.TIME, Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ, Kind.DECIMAL, Kind.FLOAT, Kind.INET, Kind.TIMETZ, Kind.INTERVAL, Kind.OID, Kind.PG_LSN,
    Kind.ENUM,
]  # fmt: skip


class Form(enum.Enum):
    """A form that all rows of a table have, so that no feed in this form fails at one."""

    ANY = "any"
    """Some rows have no form in Avro."""
    AVRO = "avro"
    CONNECT = "connect"
    """Avro with the types of Kafka Connect. Some rows have no form in CockroachDB's Avro."""


def _type_of(random: Random, kind: Kind, form: Form) -> SqlType:
    """A type of a kind, which has the form; now and then an array of it."""
    of = _ENUM if kind is Kind.ENUM else _of_width(random, kind, form)
    if kind is Kind.DECIMAL and (form is Form.AVRO or random.random() < 0.7):
        precision = random.choice((1, 9, 30, 90))
        of = SqlType(kind, width=precision, scale=random.choice((0, min(precision, 7), precision)))
    if kind in _ELEMENTS and random.random() < 0.2:
        return SqlType(Kind.ARRAY, element=of)
    return of


def _of_width(random: Random, kind: Kind, form: Form) -> SqlType:
    """The type of a kind. Only Kafka Connect has numbers of several widths."""
    widths = _WIDTHS.get(kind) if form is Form.CONNECT else None
    return SqlType(kind, width=random.choice(widths)) if widths else SqlType(kind)


def _datum(random: Random, of: SqlType, form: Form) -> Any:
    """A datum of a type, which has the form."""
    if form is Form.CONNECT and of.kind is Kind.INT and random.random() < 0.99:
        half = 1 << (of.width - 1)
        return random.choice((0, -half, half - 1, random.randrange(-half, half)))
    if form is not Form.ANY and of.kind is Kind.DATE:
        return (
            random.randrange(-(2**31), 2**31)
            if random.random() < 0.1
            else random.randrange(-700_000, 900_000)
        )
    if form is Form.AVRO and of.kind is Kind.DECIMAL and random.random() < 0.1:
        return random.choice((Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity"), Decimal(0)))
    if of.kind is Kind.DECIMAL and of.width and (form is not Form.ANY or random.random() < 0.97):
        unscaled = random.randrange(-(10**of.width), 10**of.width)
        return Decimal(unscaled).scaleb(-of.scale, Context(prec=100))
    if of.element is None:
        return _DATUMS[of.kind](random)
    size = random.choice((0, 1, 3, 9, 20))
    return tuple(None if random.random() < 0.2 else _datum(random, of.element, form) for _ in range(size))


def _as_in_keys(of: SqlType, datum: Any) -> Any:
    """The datum as databases store it in a key: a feed fails at one that is finer."""
    if of.element is not None:
        return tuple(None if item is None else _as_in_keys(of.element, item) for item in datum)
    if of.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return datum // 1000 * 1000
    if of.kind is Kind.FLOAT and of.width == _FLOAT4_BITS:
        return _FLOAT4.unpack(_FLOAT4.pack(datum))[0]
    return datum._replace(nanos=datum.nanos // 1000 * 1000) if of.kind is Kind.INTERVAL else datum


_OPTIONS: Final = (
    FeedOptions(),
    FeedOptions(updated=True),
    FeedOptions(updated=True, mvcc_timestamp=True, topic_in_value=True),
    FeedOptions(envelope=Envelope.BARE, mvcc_timestamp=True),
    FeedOptions(envelope=Envelope.BARE, key_in_value=True),
    FeedOptions(diff=True),
    FeedOptions(diff=True, updated=True, key_in_value=True, extra_headers='{"team": "blue", "%s": "1"}'),
    FeedOptions(envelope=Envelope.ROW, updated=True),
    FeedOptions(envelope=Envelope.KEY_ONLY),
    FeedOptions(envelope=Envelope.UPSERT),
    FeedOptions(envelope=Envelope.ENRICHED, updated=True, enriched_properties="source", key_in_value=True),
    FeedOptions(
        envelope=Envelope.ENRICHED, diff=True, mvcc_timestamp=True, enriched_properties="schema, source"
    ),
    FeedOptions(envelope=Envelope.DEBEZIUM),
    FeedOptions(envelope=Envelope.DEBEZIUM, extra_headers='{"team": "blue"}'),
    FeedOptions(on_oversize=OnOversize.KEY_ONLY, max_row_bytes=300),
    FeedOptions(format=Format.AVRO, updated=True),
    FeedOptions(format=Format.AVRO, diff=True, mvcc_timestamp=True, avro_schema_prefix="p"),
    FeedOptions(format=Format.AVRO, envelope=Envelope.BARE, updated=True),
    FeedOptions(format=Format.AVRO, envelope=Envelope.KEY_ONLY),
    FeedOptions(format=Format.AVRO, envelope=Envelope.ENRICHED, updated=True, enriched_properties="source"),
    FeedOptions(format=Format.AVRO, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=200),
    FeedOptions(on_oversize=OnOversize.KEY_ONLY, max_row_bytes=250, extra_headers='{"team": "blue"}'),
)
#: Options of feeds whose Avro has the types of Kafka Connect.
_CONNECT_OPTIONS: Final = (
    FeedOptions(envelope=Envelope.UPSERT, format=Format.AVRO),
    FeedOptions(envelope=Envelope.UPSERT, format=Format.AVRO, extra_headers='{"team": "blue"}'),
    FeedOptions(envelope=Envelope.DEBEZIUM, format=Format.AVRO),
    FeedOptions(envelope=Envelope.DEBEZIUM, format=Format.AVRO, topic_prefix="ü-"),
)
#: Options that the kernel leaves to Python.
_ODD_OPTIONS: Final = (
    FeedOptions(envelope=Envelope.UPSERT, connect_schema=True),
    FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
    FeedOptions(encode_json_value_null_as_object=True),
    FeedOptions(format=Format.CSV),
)


class History(NamedTuple):
    """A log partition, the feeds that are active from its first record on, and one that begins later."""

    records: tuple[Record, ...]
    feeds: tuple[Activate, ...]
    later: Activate
    batch: int


def history(seed: int, ops: int = 250, form: Form | None = None) -> History:
    """The history of a seed, with about so many ops. ``form`` is that of all its tables."""
    random = Random(seed)
    tables = [Table(random, 100 + number, form) for number in range(random.randint(1, 3))]
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
    feeds = tuple(feed_on(random, tables, f"feed-{number}") for number in range(random.randint(1, 3)))
    return History(log.partitions[0], feeds, feed_on(random, tables, "later"), random.choice((3, 40, 1000)))


class Lockstep:
    """The processors of one history: each step of the one is compared with that of the other."""

    def __init__(self, mode: KernelMode = KernelMode.ON) -> None:
        self._python = PartitionProcessor(0, 1, ProcessorConfig(kernel=None))
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
        for processor, result in ((self._python, python), (self._native, native)):
            require_rows_of_ranges(processor, result)
        assert native == python
        self.rows += sum(map(len, python.outputs.values()))
        self.rows += sum(map(len, python.unframed.values()))


class Table:
    """A table that changes now and then. Without a ``form`` it is that of any table."""

    def __init__(self, random: Random, table_id: int, form: Form | None = None) -> None:
        drawn = Form.AVRO if random.random() < 0.4 else Form.ANY
        self.form = drawn if form is None else form
        has_avro = self.form is Form.AVRO
        self._kinds: list[Kind] = [kind for kind in _DATUMS if not (has_avro and kind in _WITHOUT_AVRO)]
        kinds: list[Kind] = random.choices(
            [kind for kind in self._kinds if kind not in _OF_PYTHON], k=random.randint(1, 8)
        )
        if self.form is Form.CONNECT:
            kinds += [Kind.FLOAT, Kind.DECIMAL]
        if random.random() < 0.2 and not has_avro:
            kinds.append(random.choice(_OF_PYTHON))
        odd_key = random.random() < 0.1 and not has_avro
        key_kinds: list[Kind] = _ODD_KEYS if odd_key else [kind for kind in _IN_KEYS if kind in self._kinds]
        if has_avro:  # a key's decimal has no digits
            key_kinds = [kind for kind in key_kinds if kind is not Kind.DECIMAL]
        keys = random.choices(key_kinds, k=random.randint(1, 2))
        columns = tuple(
            Column(
                number + 1,
                random.choice(("c", "%s", 'q"', "ü")) + str(number),
                _type_of(random, kind, self.form)
                if number >= len(keys)
                else _ENUM
                if kind is Kind.ENUM
                else _of_width(random, kind, self.form),
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
            primary_key=tuple(KeyPart(number + 1, random.random() < 0.15) for number in range(len(keys))),
            families=(Family(0, "primary", tuple(column.id for column in columns)),),
        )
        self.hand = HandTable(self.first)
        self._stored: dict[bytes, bytes] = {}

    def alter(self, random: Random, modified: Timestamp) -> None:
        """Begin a version with one more column, or with one column less that is public."""
        before = self.hand.descriptor
        columns = list(before.columns)
        if random.random() < 0.5:
            number = max(column.id for column in columns) + random.randint(1, 20)
            columns.append(
                Column(number, f"n{number}", _type_of(random, random.choice(self._kinds), self.form))
            )
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

    def put(self, random: Random, key: bytes, value: bytes) -> tuple[bytes, bytes, bytes]:
        """Store a row, now and then under the key of another one; return key, value, and the value before."""
        if self._stored and random.random() < 0.5:
            checksum_unset = value[:CHECKSUM_SIZE] == bytes(CHECKSUM_SIZE)
            key = random.choice([*self._stored])
            value = value if checksum_unset or not value else seal(key, value[CHECKSUM_SIZE:])
        before = self._stored.get(key, b"")
        self._stored[key] = value
        return key, value, before

    def _datums(self, random: Random) -> list[Any]:
        in_key = {part.column_id for part in self.hand.descriptor.primary_key}
        datums: list[Any] = []
        for column in self.hand.descriptor.columns:
            if not column.in_rows:
                continue
            if column.id not in in_key and random.random() < 0.15:
                datums.append(None)
                continue
            datum = _datum(random, column.type, self.form)
            datums.append(_as_in_keys(column.type, datum) if column.id in in_key else datum)
        return datums


def _ops(random: Random, table: Table, seconds: float, damage: float) -> list[Op]:
    key, value = table.pair(random)
    if random.random() < 0.1:
        value = b""
    if random.random() < 0.3 and value:
        value = bytes(CHECKSUM_SIZE) + value[CHECKSUM_SIZE:]
    key, value, before = table.put(random, key, value)
    if random.random() < 0.1:
        value = join_header(b"\x18\x00", value)
    if random.random() < 0.05:
        key = key[:1] + b"\x8b" + key[2:]  # of another index
    if random.random() < 0.05:
        key = b"\xfe\x92" + key  # of a tenant; its checksum is wrong then, where it has one
        value = value[:0] if value[:CHECKSUM_SIZE] != bytes(CHECKSUM_SIZE) else value
    if random.random() < damage:
        key, value = damaged(random, key), damaged(random, value)
    previous: bytes | None = before
    if random.random() < damage:
        previous = random.choice((None, damaged(random, before)))
    omitted = random.random() < 0.05
    if random.random() < 0.5:
        return [WriteValue(key, at(seconds), value, previous, omitted)]
    number = random.randrange(2**64)
    return [intent(number, seconds), CommitIntent(txn(number), key, at(seconds), value, previous, omitted)]


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


def feed_on(random: Random, tables: Sequence[Table], feed_id: str) -> Activate:
    """A feed on some of the tables, in the form of Kafka Connect if their rows have that form."""
    wanted = [table.first for table in random.sample(tables, random.randint(1, len(tables)))]
    if all(table.form is Form.CONNECT for table in tables):
        return _connect_feed(random, wanted, feed_id)
    options = random.choice(_ODD_OPTIONS if random.random() < 0.12 else _OPTIONS)
    if len(wanted) == 1 and random.random() < 0.2:
        options = replace(options, key_column=random.choice(wanted[0].columns).name)
    return _starting(random, wanted, options, feed_id)


def _connect_feed(random: Random, wanted: Sequence[TableDescriptor], feed_id: str) -> Activate:
    """A feed whose key is often a column that keys show in another form than rows do."""
    options = random.choice(_CONNECT_OPTIONS)
    if random.random() < 0.5:
        wanted = wanted[:1]
        columns = wanted[0].columns
        numbers = [column for column in columns if _is_number(column.type)]
        options = replace(options, key_column=random.choice(numbers or columns).name)
    return _starting(random, wanted, options, feed_id)


def _is_number(of: SqlType) -> bool:
    """Whether keys show datums of the type, or items of them, in another form than rows."""
    return (of if of.element is None else of.element).kind in (Kind.DECIMAL, Kind.FLOAT)


def _starting(
    random: Random, wanted: Sequence[TableDescriptor], options: FeedOptions, feed_id: str
) -> Activate:
    start = at(random.choice((0.0, 20.0, 35.25)))
    return activation(
        wanted, options, start=start, feed_id=feed_id, output_partitions=random.choice((1, 3, 16))
    )
