"""Inputs of about n bytes for the decoders beside those of rows, each the worst of its kind that is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tests.hostile.write_batches import batch, delete_range, set_version
from tests.unit.subscribe.consumer_run import plan_of
from tidegate.access.destinations import fits
from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.changefeed.lifecycle.control import read_ack, read_control
from tidegate.changefeed.statement.caret import with_caret
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.changefeed.statement.definition import define_feed
from tidegate.errors import StatementError
from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp, parse_decimal
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Command,
    DescriptorUpdate,
    Entry,
    Generation,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    ScanChunk,
    Snapshot,
    TxnId,
    WriteIntent,
    WriteValue,
)
from tidegate.raftlog.entry import KeyValue as StoredVersion
from tidegate.raftlog.write_batch import with_values
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    Kind,
    SqlType,
    TableCodec,
    TableDescriptor,
    encode_descriptor,
)
from tidegate.rows.pretty import pretty_key
from tidegate.rows.value_frame import seal
from tidegate.rows.valueside.varints import encode_length
from tidegate.serve.postgres.commands import read_command
from tidegate.serve.postgres.sql_words import statements
from tidegate.spans import Span
from tidegate.subscribe.query.patterns import is_like
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.update import Update

Work: TypeAlias = Callable[[], object]

_AT: Final = Timestamp(200)
_RANGE: Final = RangeId(1)
_TXN: Final = TxnId(bytes(16))
_NOW: Final = 1_700_000_000_000_000_000
_TABLE: Final = TableDescriptor(
    104,
    "t",
    1,
    Timestamp(1),
    (
        Column(1, "id", SqlType(Kind.INT, 64), nullable=False),
        Column(2, "i", SqlType(Kind.INT, 64)),
        Column(3, "s", SqlType(Kind.STRING)),
    ),
    (KeyPart(1),),
    (Family(0, "primary", (1, 2, 3)),),
)


def growing_inputs() -> Iterator[tuple[str, Callable[[int], Work]]]:
    """Yield what to call each, and what makes the work on an input of about n bytes."""
    yield from _ROWS.items()
    yield from _ENTRIES.items()
    yield from _TEXTS.items()


# ---- rows that are damaged, or have columns of other versions ----


def row_with(body: bytes) -> tuple[bytes, bytes]:
    """Key and value of a row whose columns are these bytes."""
    codec = TableCodec(_TABLE)
    key, _ = codec.encode({"id": 1})
    return key, seal(key, b"\x0a" + body)


def _row(body: Callable[[int], bytes]) -> Callable[[int], Work]:
    def make(size: int) -> Work:
        codec, (key, value) = TableCodec(_TABLE), row_with(body(size))
        return lambda: codec.decode(key, value)

    return make


#: Tag of a column that the table has not: nine ids further, a tuple.
DROPPED_TUPLE: Final = encode_length(9 << 4 | 15) + encode_length(16)


def nested_tuples(depth: int) -> bytes:
    """A dropped column whose tuples have one element, a tuple again."""
    return DROPPED_TUPLE + b"\x01\x0f\x10" * depth + b"\x00"


_ROWS: Final = {
    "an integer without an end": _row(lambda n: b"\x13" + b"\xff" * n + b"\x01"),
    "an integer of zeros": _row(lambda n: b"\x13" + b"\x80" * n + b"\x01"),
    "a length without an end": _row(lambda n: b"\x26" + b"\xff" * n + b"\x01"),
    "a tag without an end": _row(lambda n: b"\xff" * n + b"\x01"),
    "tuples in tuples": _row(lambda n: nested_tuples(n // 3)),
    "a tuple of NULLs": _row(lambda n: DROPPED_TUPLE + encode_length(n) + b"\x01" * n),
    "columns that are dropped": _row(lambda n: b"\x91" * (n // 2) + b"\x91" * (n // 2)),
    "a column again and again": _row(lambda n: b"\x23\x02" + b"\x03\x02" * (n // 2)),
}

# ---- entries of the log ----


def _entry(entry: Callable[[int], Entry]) -> Callable[[int], Work]:
    def make(size: int) -> Work:
        key, value = encode_key(_RANGE), encode_entry(entry(size))
        return lambda: decode_entry(key, value)

    return make


def _command(ops: tuple[WriteValue | WriteIntent, ...]) -> Command:
    return Command(_RANGE, Generation(1), RaftIndex(1), ops, None)


def snapshot(**fields: object) -> Snapshot:
    """A range's first entry."""
    whole = Span(b"\x01", b"\xff\xff")
    first = Snapshot(
        _RANGE, Generation(1), RaftIndex(0), whole, ClosedTimestamp(Timestamp(50)), Timestamp(60), ZERO
    )
    return first._replace(**fields)  # type: ignore[arg-type]


def _sets_and_deleted_ranges(size: int) -> Work:
    count = size // 46
    sets = [set_version(b"k%06d" % i, _AT, b"") for i in range(count)]
    ranges = [delete_range(b"z%06d" % i, b"z%06d" % (i + 1)) for i in range(count)]
    return _filled(batch(*sets, *ranges))


def _ranges_in_ranges(size: int) -> Work:
    count = size // 46
    sets = [set_version(b"k%06d" % i, _AT, b"") for i in range(count)]
    ranges = [delete_range(b"a%06d" % i, b"y%06d" % (count - i)) for i in range(count)]
    return _filled(batch(*ranges, *sets))


def _filled(data: bytes) -> Work:
    op = WriteValue(b"k000001", _AT, None)
    return lambda: with_values((op,), data)


def _updates(size: int, *, of_one_table: bool) -> list[DescriptorUpdate]:
    updates = []
    for number in range(1, size // 100 + 1):
        table_id, version = (104, number) if of_one_table else (100 + number, 1)
        columns, key, families = _TABLE.columns[:1], _TABLE.primary_key, (Family(0, "primary", (1,)),)
        table = TableDescriptor(table_id, "t", version, Timestamp(number), columns, key, families)
        updates.append(DescriptorUpdate(table_id, version, table.modified, encode_descriptor(table)))
    return updates


def _descriptors(of_one_table: bool) -> Callable[[int], Work]:
    def make(size: int) -> Work:
        updates = _updates(size, of_one_table=of_one_table)

        def learn() -> None:
            rows = PartitionRows()
            for update in updates:
                assert rows.is_new(update)
                rows.learn(update)

        return learn

    return make


_ENTRIES: Final[dict[str, Callable[[int], Work]]] = {
    "writes": _entry(lambda n: _command((WriteValue(b"", _AT, b""),) * (n // 10))),
    "intents": _entry(lambda n: _command((WriteIntent(_TXN, b"", _AT, _AT),) * (n // 30))),
    "intents of a snapshot": _entry(
        lambda n: snapshot(intents=(OpenIntent(_TXN, b"", b"", _AT),) * (n // 26))
    ),
    "parents of a snapshot": _entry(
        lambda n: snapshot(parents=(Parent(RangeId(5), Generation(1), RaftIndex(5)),) * (n // 8))
    ),
    "rows of a scan": _entry(
        lambda n: ScanChunk(
            _RANGE,
            Generation(1),
            RaftIndex(1),
            7,
            Span(b"\x01", b"\xf8"),
            None,
            _AT,
            False,
            (StoredVersion(b"", _AT, b""),) * (n // 10),
            True,
        )
    ),
    "ranges deleted in a write batch": _sets_and_deleted_ranges,
    "ranges deleted around each other": _ranges_in_ranges,
    "descriptors of tables": _descriptors(of_one_table=False),
    "versions of a descriptor": _descriptors(of_one_table=True),
}

# ---- texts and messages ----


def _define(statement: str) -> Work:
    return lambda: define_feed(statement, FeedId("f1"), _NOW)


def _caret(line: str) -> Work:
    return lambda: with_caret(StatementError("wrong", 5), line)


def _with(option: str) -> Work:
    return _define(f"CREATE CHANGEFEED FOR TABLE t INTO 'kafka://h:1' WITH {option}")


def _cursor(text: str) -> Work:
    return lambda: read_cursor(text, _NOW)


def _subscribe(rest: str) -> Work:
    return lambda: parse_subscribe(f"SUBSCRIBE t {rest}")


def _commands(text: str) -> Work:
    return lambda: [read_command(each) for each in statements(text)]


_TEXTS: Final[dict[str, Callable[[int], Work]]] = {
    "a line of colons": lambda n: _caret("INTO '" + "a:" * (n // 2) + "'"),
    "a line of colons and ats": lambda n: _caret("INTO '" + ":@" * (n // 2) + "'"),
    "a line of colons, an at first": lambda n: _caret("INTO '@" + ":" * n + "'"),
    "a line of quotes": lambda n: _caret("':" + "''" * (n // 2)),
    "a line of secrets": lambda n: _caret("'sasl_password=" * (n // 15)),
    "headers without an end": lambda n: _caret("extra_headers   " * (n // 16)),
    "a statement of tables": lambda n: _define("CREATE CHANGEFEED FOR " + "a," * (n // 2)),
    "a statement of options": lambda n: _with("diff," * (n // 5)),
    "a statement of one name": lambda n: _with("x" * n),
    "a statement of quotes": lambda n: _define("CREATE CHANGEFEED FOR t INTO " + "'" * n),
    "a statement of comments": lambda n: _define("/*" * (n // 2)),
    "a statement of spaces": lambda n: _define(" " * n + "x"),
    "a long option": lambda n: _with(f"unordered, key_column='{'k' * n}'"),
    "a sink of parameters": lambda n: _define(
        f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1?{'a=1&' * (n // 4)}'"
    ),
    "a sink of unknown parameters": lambda n: _define(
        "CREATE CHANGEFEED FOR t INTO 'kafka://h:1?"
        + "&".join(f"sasl_passw{i:04x}=1" for i in range(n // 17))
        + "'"
    ),
    "headers nested": lambda n: _with("extra_headers='" + '{"a":' * (n // 5) + "'"),
    "a cursor of digits": lambda n: _cursor("1" * n),
    "a cursor of units": lambda n: _cursor("-" + "1s" * (n // 2)),
    "a duration of a long fraction": lambda n: lambda: _refused(parse_duration, f"0.{'7' * n}s"),
    "a timestamp of digits": lambda n: lambda: _refused(parse_decimal, "1" * n),
    "a message of brackets": lambda n: lambda: read_control(b"[" * n),
    "a message of digits": lambda n: lambda: read_ack(b'{"v":' + b"9" * n + b"}"),
    "a message of half surrogates": lambda n: (
        lambda: read_control(b'{"v":5,"x":"' + b"\\udcff" * (n // 6) + b'"}')
    ),
    "a message of members": lambda n: (
        lambda: read_control(json.dumps({f"m{i}": i for i in range(n // 12)}).encode())
    ),
    "the partition of a key": lambda n: lambda: partition_of(b"k" * n, 7),
    "a key for people": lambda n: lambda: pretty_key(b"\xf0\x89" + b"\x12a\x00\x01" * (n // 4)),
    "a descending key for people": lambda n: lambda: pretty_key(b"\xf0\x89" + b"\x13\x9e\xff\xfe" * (n // 4)),
    "a key of noise for people": lambda n: lambda: pretty_key(b"\xf0\x89\x1a" + b"\x60" * n),
    "a subscription with comments between words": lambda n: _subscribe(f"within{'/**/' * (n // 4)}x"),
    "a subscription of comments without an end": lambda n: _subscribe("/*" * (n // 2)),
    "a subscription of stars": lambda n: _subscribe(f"within /*{'*' * n}"),
    "a command of commas": lambda n: _commands(f"BEGIN {',' * n}"),
    "a command of values": lambda n: _commands(f"SELECT {'1,' * (n // 2)}"),
    "a command of a setting": lambda n: _commands(f"SET a={',' * n}"),
    "a command of parentheses": lambda n: _commands(f"COPY {'(' * n}"),
    "a command of comments": lambda n: _commands("/*" * (n // 2)),
    "an address against a pattern of stars": lambda n: lambda: fits("*-*-*-*.b:9092", "-" * n + ".b:9092x"),
    "a text against a pattern": lambda n: lambda: is_like("a" * n, f"%{'a' * (n // 2)}b%"),
    "timestamps of rows after an offset": lambda n: _first_rows("ORDER BY id OFFSET 1", n // 20),
    "timestamps of rows before a far offset": lambda n: _first_rows(
        "ORDER BY id LIMIT 10 OFFSET 1000000", n // 20
    ),
    "timestamps of rows within a long window": lambda n: _first_rows("ORDER BY note LIMIT 1000000", n // 20),
    "a text against a pattern without case": lambda n: (
        lambda: is_like("a" * n, f"%{'A' * (n // 2)}b%", fold=True)
    ),
    "a text against a pattern with characters that are equal in other ways": lambda n: (
        lambda: is_like("\u0131\u0130" * (n // 4), f"%{'I' * (n // 8)}b%", fold=True)
    ),
    "a text against a pattern of underscores": lambda n: lambda: is_like("a" * n, f"%{'_' * (n // 2)}b%"),
    "a text against underscores between letters": lambda n: lambda: is_like("a" * n, f"%{'a_' * 15}b%"),
    "a text against long runs": lambda n: lambda: is_like("a" * n, f"%{'a' * 400}_{'a' * 400}b%"),
    "a text against many parts": lambda n: lambda: is_like("ab" * (n // 2), "%a_%" * (n // 8)),
}


def _first_rows(clause: str, count: int) -> Work:
    """The first rows of an order: a row comes at each timestamp."""
    query = plan_of(f"SUBSCRIBE (SELECT id, note FROM accounts {clause})")
    updates = [Update(Timestamp(wall + 1), 1, (wall, 0, str(-wall))) for wall in range(count)]

    def work() -> object:
        selection = query.selection()
        assert selection is not None
        return selection.apply(updates)

    return work


def _refused(read: Callable[[str], object], text: str) -> None:
    try:
        read(text)
    except ValueError:
        return
    raise AssertionError(f"{text[:20]}... was read")
