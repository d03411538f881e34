"""Bytes of the log: entries, batches of them, write batches, and what the source is asked."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.fuzz.message_mutators import altered
from tests.fuzz.mutators import damaged
from tests.fuzz.parts import joined, parted, two
from tests.fuzz.target import Target, require
from tests.fuzz.targets.log_entries import RECORDS, changed
from tests.hostile.write_batches import batch, delete_range, set_version
from tidegate.errors import MalformedEntry
from tidegate.hlc import Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.decode import decode_batch, decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key, range_of
from tidegate.raftlog.entry import CommitIntent, RangeId, TxnId, WriteValue
from tidegate.raftlog.request import (
    AdminMerge,
    AdminSplit,
    Push,
    PushedTxn,
    Scan,
    decode_request,
    encode_request,
)
from tidegate.raftlog.write_batch import with_values
from tidegate.spans import Span

_AT: Final = Timestamp(200, 1)
_TXN: Final = TxnId(bytes(16))


def _draw_entry(chance: Random) -> bytes:
    return joined(changed(chance, chance.choice(RECORDS)))


def _take_entry(data: bytes) -> None:
    entry = decode_entry(*two(data))
    again = decode_entry(encode_key(range_of(entry)), encode_entry(entry))
    require(again == entry, "an entry that was read is another one once it is written and read again")


def _draw_batch(chance: Random) -> bytes:
    count = chance.randrange(1, 6)
    return joined(part for _ in range(count) for part in changed(chance, chance.choice(RECORDS)))


def _take_batch(data: bytes) -> None:
    parts = list(parted(data))
    records = list(zip(parts[::2], parts[1::2], strict=False))
    require(len(decode_batch(records)) == len(records), "a batch has an answer for each record")


# ---- write batches ----

_HEADER: Final = pb.MVCCValueHeader(omit_in_rangefeeds=True, origin_id=5).SerializeToString()
_VALUES: Final = (
    b"",
    b"\0\0\0\0\x03one",
    len(_HEADER).to_bytes(4, "big") + b"\x65" + _HEADER + b"\0\0\0\0\x03two",
)
_BATCHES: Final = (
    batch(*(set_version(b"k%d" % number, _AT, value) for number, value in enumerate(_VALUES))),
    batch(set_version(b"k0", _AT, _VALUES[1]), delete_range(b"k0", b"k1"), set_version(b"k1", _AT, b"")),
    batch(),
)
_OPS: Final = (
    WriteValue(b"k0", _AT, None),
    CommitIntent(_TXN, b"k1", _AT, None),
    WriteValue(b"k2", _AT, None),
)


def _take_write_batch(data: bytes) -> None:
    filled = with_values(_OPS, data)
    require(len(filled) == len(_OPS), "each op comes back, with or without its value")


# ---- requests ----

_SPAN: Final = Span(b"a", b"b")
_REQUESTS: Final = tuple(
    encode_request(request)[1]
    for request in (
        Push(RangeId(1), (PushedTxn(_TXN, b"anchor"),), _AT),
        Scan(RangeId(1), 5, _SPAN, _AT, _AT, all_versions=True, with_prev=False),
        AdminSplit(RangeId(1), b"k"),
        AdminMerge(RangeId(1)),
    )
)


def _draw_request(chance: Random) -> bytes:
    seed = chance.choice(_REQUESTS)
    return damaged(chance, seed) if chance.random() < 0.5 else altered(chance, pb.Request.FromString(seed))


TARGETS: Final = (
    Target("entries", _draw_entry, _take_entry, (MalformedEntry,)),
    Target("entry-batches", _draw_batch, _take_batch, ()),
    Target(
        "write-batches",
        lambda chance: damaged(chance, chance.choice(_BATCHES)),
        _take_write_batch,
        (MalformedEntry,),
    ),
    Target("requests", _draw_request, decode_request, (MalformedEntry,)),
)
