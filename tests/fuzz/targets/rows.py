"""Rows of every type: decoded, and written for every kind of feed; and descriptors of their tables.

An input begins with two bytes that choose the column's type, and has key and value behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from tests.fuzz.message_mutators import altered
from tests.fuzz.mutators import damaged
from tests.fuzz.parts import joined, two
from tests.fuzz.target import Target, require
from tests.fuzz.targets.datums import SAMPLES, TYPES
from tests.fuzz.targets.log_entries import TABLE
from tests.hostile.growing_rows import ENCODERS
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.errors import FeedError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    Kind,
    SqlType,
    TableCodec,
    TableDescriptor,
    decode_descriptor,
    encode_descriptor,
)
from tidegate.rows import descriptor_pb2 as pb
from tidegate.rows.keyside.datums import has_key_form
from tidegate.rows.value_frame import CHECKSUM_SIZE, seal

_AT: Final = Timestamp(5, 1)
_ID: Final = Column(1, "id", SqlType(Kind.INT, 64), nullable=False)
_CHOICE_BYTES: Final = 2
_TUPLE: Final = b"\x0a"
_FEEDS: Final = (
    *ENCODERS.values(),
    FeedOptions(envelope=Envelope.BARE, diff=False),
    FeedOptions(diff=True, updated=True, key_in_value=True),
)


class _Stage(NamedTuple):
    """A table whose column ``v`` has a type, in the value or in the key."""

    table: TableDescriptor
    type: SqlType


def _stages() -> Iterator[_Stage]:
    for sql_type in TYPES:
        yield _Stage(_table(sql_type, (KeyPart(1),), nullable=True), sql_type)
        if has_key_form(sql_type):
            for descending in (False, True):
                parts = (KeyPart(1), KeyPart(2, descending=descending))
                yield _Stage(_table(sql_type, parts, nullable=False), sql_type)


def _table(sql_type: SqlType, parts: tuple[KeyPart, ...], *, nullable: bool) -> TableDescriptor:
    columns = (_ID, Column(2, "v", sql_type, nullable=nullable))
    return TableDescriptor(104, "t", 1, Timestamp(1), columns, parts, (Family(0, "primary", (1, 2)),))


_STAGES: Final = tuple(_stages())


@cache
def _codec(number: int) -> TableCodec:
    return TableCodec(_STAGES[number].table)


@cache
def _encoders(number: int) -> list[RecordEncoder]:
    return list(_encoders_of(_STAGES[number].table))


def _encoders_of(table: TableDescriptor) -> Iterator[RecordEncoder]:
    """Yield an encoder for each kind of feed that takes the table."""
    for options in _FEEDS:
        try:
            yield compile_encoder(table, options)
        except UnsupportedTable:
            continue


# ---- rows ----


def _draw_row(chance: Random) -> bytes:
    number = chance.randrange(len(_STAGES))
    key, value = _encoded(chance, number)
    body = value[CHECKSUM_SIZE + len(_TUPLE) :]
    draw = chance.random()
    if draw < 0.7:
        body = damaged(chance, body)
    elif draw < 0.8:
        body = body[: chance.randrange(3)] + chance.randbytes(chance.randrange(40))
    if chance.random() < 0.3 or draw > 0.9:
        key = key[:3] + damaged(chance, key[3:])
    sealed = seal(key, _TUPLE + body) if chance.random() < 0.95 else damaged(chance, value)
    return number.to_bytes(_CHOICE_BYTES, "big") + joined((key, sealed))


def _encoded(chance: Random, number: int) -> tuple[bytes, bytes]:
    """A row that can be read; where keys have no form for the datum, one that cannot."""
    try:
        return _codec(number).encode({"id": 1, "v": _sample(chance, _STAGES[number].type)})
    except FeedError:
        return b"\xf0\x89\x89" + chance.randbytes(20), bytes(CHECKSUM_SIZE) + _TUPLE


def _sample(chance: Random, sql_type: SqlType) -> Any:
    if sql_type.element is not None:
        count = chance.choice((0, 1, 2, 9))
        return tuple(chance.choice((None, _sample(chance, sql_type.element))) for _ in range(count))
    return chance.choice(SAMPLES[sql_type.kind])


def _take_row(data: bytes) -> None:
    number = int.from_bytes(data[:_CHOICE_BYTES], "big") % len(_STAGES)
    key, value = two(data[_CHOICE_BYTES:])
    row = _codec(number).decode(key or b"", value or b"")
    if row is None:
        return
    row = row._replace(previous=row.values or ())
    for encoder in _encoders(number):
        try:
            _, written = encoder.encode(row, _AT)
        except FeedError as refused:
            require(len(str(refused)) < 2_000, f"a reason of {len(str(refused))} characters")
            continue
        require(written is None or len(written) < 1 << 27, "a record is larger than any row may become")
        if encoder.headers is not None:
            encoder.headers(row)


# ---- descriptors ----


def _draw_descriptor(chance: Random) -> bytes:
    stored = encode_descriptor(TABLE.descriptor if chance.random() < 0.5 else chance.choice(_STAGES).table)
    if chance.random() < 0.4:
        return damaged(chance, stored)
    return stored[:1] + altered(chance, pb.TableDescriptor.FromString(stored[1:]))


def _take_descriptor(data: bytes) -> None:
    table = decode_descriptor(data)
    # What names a table is cut where it is stored: names may be long.
    with suppress(FeedError):
        _compile(table)


def _compile(table: TableDescriptor) -> None:
    """Compile as the processor does: nobody writes rows that cannot be read."""
    TableCodec(table)
    for options in _FEEDS:
        with suppress(FeedError):
            compile_encoder(table, options)


TARGETS: Final = (
    Target("rows", _draw_row, _take_row, (FeedError,), weight=2),
    Target("descriptors", _draw_descriptor, _take_descriptor, (FeedError,)),
)
