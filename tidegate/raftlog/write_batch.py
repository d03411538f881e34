"""Reads the values that ops do not have from the write batch of their command.

A logical op of CockroachDB's Raft log names a key and a timestamp. The value is in the command's write batch,
which is a Pebble (RocksDB) batch:

    batch   = sequence number (8 bytes) | count (4 bytes), little endian | records
    record  = kind (1 byte) | key (varstring) | value (varstring, for some kinds only)
    varstring = length (varint of at most 5 bytes) | bytes

The keys of a batch are engine keys. Each has a roachpb key, a zero byte, the version's timestamp, and a
length byte. The length counts the timestamp and the length byte itself (9: wall; 13: wall and logical; 14:
those and a synthetic mark). A key without versions ends with the zero byte. For example, key ``a`` at wall
time 1 is ``61 00 0000000000000001 09`` in hexadecimal.

The values of a batch may begin with an MVCC header, which is removed here. The rest is the same as a value in
an op.

Sources: cockroachdb/pebble batch.go, batchrepr/reader.go, internal/base/internal.go,
cockroachkvs/cockroachkvs.go; cockroachdb/cockroach pkg/kv/kvserver/replica_rangefeed.go
(handleLogicalOpLogRaftMuLocked), pkg/storage/mvcc_key.go, pkg/storage/mvcc_value.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from tidegate.errors import MalformedEntry
from tidegate.hlc import Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.entry import CommitIntent, Op, WriteValue

_HEADER: Final = 12
_COUNT: Final = slice(8, 12)
_MAX_VARINT_BYTES: Final = 5

_SENTINEL: Final = 0x00
_WALL: Final = 9  # size of a suffix that has only a wall time; the length byte is counted
_SUFFIX_SIZES: Final = frozenset({_WALL, 13, 14})

_EXTENDED: Final = 0x65  # marks a value with a header; it stands where an ordinary value has its tag
_CHECKSUM: Final = 4

#: Ops that make a version. It is a tuple, since `isinstance` would build a union anew for every op.
_COMMITTING: Final = (WriteValue, CommitIntent)


class KeyKind(IntEnum):
    """The kind of a record of a batch. Kinds that a store writes only to its own log are not listed."""

    DELETE = 0
    SET = 1
    MERGE = 2
    LOG_DATA = 3
    SINGLE_DELETE = 7
    RANGE_DELETE = 15
    RANGE_KEY_DELETE = 19
    RANGE_KEY_UNSET = 20
    RANGE_KEY_SET = 21
    DELETE_SIZED = 23


_KINDS: Final = frozenset(map(int, KeyKind))
_KEY_ONLY: Final = frozenset({KeyKind.DELETE, KeyKind.LOG_DATA, KeyKind.SINGLE_DELETE})
#: After a record of one of these kinds, the batch does not have the version's value any more. After a merge,
#: only the store knows the value.
_FORGETTING: Final = frozenset({KeyKind.DELETE, KeyKind.SINGLE_DELETE, KeyKind.DELETE_SIZED, KeyKind.MERGE})

#: A key and a timestamp.
_Version: TypeAlias = tuple[bytes, Timestamp]
#: A place in the store's order of versions; see ``_order``.
_Place: TypeAlias = tuple[bytes, int, int, int]


class _Record(NamedTuple):
    kind: int
    key: bytes
    value: bytes


class _DeletedRange(NamedTuple):
    """A deleted range. The record with this ``number`` deletes what earlier records wrote in the range."""

    start: _Place
    end: _Place
    number: int


def with_values(ops: tuple[Op, ...], batch: bytes) -> tuple[Op, ...]:
    """Return ``ops`` with their missing values filled in, as far as ``batch`` holds them.

    The batch is read only if the value of some op is missing. Raises ``MalformedEntry`` if the batch is read
    and its bytes are no batch.
    """
    if not batch or not any(isinstance(op, _COMMITTING) and op.value is None for op in ops):
        return ops
    stored = _stored_versions(batch)
    return tuple(
        _with_value(op, stored) if isinstance(op, _COMMITTING) and op.value is None else op for op in ops
    )


def _with_value(op: WriteValue | CommitIntent, stored: dict[_Version, bytes]) -> Op:
    value = stored.get((op.key, op.timestamp))
    if value is None:
        return op
    plain, omit, origin_id = _without_header(value)
    return op._replace(
        value=plain,
        omit_in_rangefeeds=op.omit_in_rangefeeds or omit,
        origin_id=op.origin_id or origin_id,
    )


def _without_header(stored: bytes) -> tuple[bytes, bool, int]:
    """Return a stored value without its MVCC header, and two members of the header.

    These are *omit in rangefeeds* and the origin id. Without a header they are ``False`` and 0.
    """
    if not stored:
        return stored, False, 0
    if len(stored) <= _CHECKSUM:
        raise MalformedEntry(f"the write batch holds a value of {len(stored)} bytes, too few for its tag")
    if stored[_CHECKSUM] != _EXTENDED:
        return stored, False, 0
    start = _CHECKSUM + 1
    end = start + int.from_bytes(stored[:_CHECKSUM], "big")
    if end > len(stored):
        raise MalformedEntry(
            f"the write batch holds a value of {len(stored)} bytes whose header would end at byte {end}"
        )
    try:
        header = pb.MVCCValueHeader.FromString(stored[start:end])
    except DecodeError as error:
        raise MalformedEntry(f"the write batch holds a value with an unreadable header: {error}") from None
    return stored[end:], header.omit_in_rangefeeds, header.origin_id


# ---- the batch ----


def _stored_versions(batch: bytes) -> dict[_Version, bytes]:
    """Return the versions that the batch leaves in the store, with their values as stored."""
    versions: dict[_Version, bytes] = {}
    written: dict[_Version, int] = {}  # for each version, the number of the record that wrote it
    deleted: list[_DeletedRange] = []
    for number, record in enumerate(_records(batch)):
        if record.kind == KeyKind.RANGE_DELETE:
            deleted.append(_DeletedRange(_bound(record.key), _bound(record.value), number))
        elif record.kind == KeyKind.SET and (version := _version(record.key)) is not None:
            versions[version] = record.value
            written[version] = number
        elif record.kind in _FORGETTING and (version := _version(record.key)) is not None:
            versions.pop(version, None)
    if deleted:
        for version in _overwritten(versions, written, deleted):
            del versions[version]
    return versions


def _records(batch: bytes) -> Iterator[_Record]:
    if len(batch) < _HEADER:
        raise MalformedEntry(f"a write batch has a header of {_HEADER} bytes, this one has {len(batch)}")
    counted, position = 0, _HEADER
    while position < len(batch):
        start, kind = position, batch[position]
        if kind not in _KINDS:
            raise MalformedEntry(f"the write batch has a record of unknown kind {kind} at byte {start}")
        key, position = _varstring(batch, start + 1)
        value = b""
        if kind not in _KEY_ONLY:
            value, position = _varstring(batch, position)
        counted += kind != KeyKind.LOG_DATA  # log data is never applied, so the header does not count it
        yield _Record(kind, key, value)
    announced = int.from_bytes(batch[_COUNT], "little")
    if counted != announced:
        raise MalformedEntry(f"the write batch announces {announced} records and has {counted}")


def _varstring(batch: bytes, position: int) -> tuple[bytes, int]:
    """Return the string at ``position``, and the position after it."""
    size = shift = 0
    for start in range(position, min(position + _MAX_VARINT_BYTES, len(batch))):
        size |= (batch[start] & 0x7F) << shift
        shift += 7
        if batch[start] < 0x80:
            end = start + 1 + size
            if end > len(batch):
                break
            return batch[start + 1 : end], end
    raise MalformedEntry(f"the write batch of {len(batch)} bytes is cut off or damaged at byte {position}")


def _overwritten(
    versions: Iterable[_Version], written: Mapping[_Version, int], deleted: list[_DeletedRange]
) -> list[_Version]:
    """Return the versions that lie in a range which a later record of the batch deletes.

    One pass in the order of the store goes through the versions and the deleted ranges. The heap has the
    ranges that have begun at or before the present version; on top is the range that the latest record
    deletes. If each range were compared with all versions, the time would grow with n * n: a batch of 92 KB
    took 1.8 s.
    """
    ranges = iter(sorted(deleted))
    following = next(ranges, None)
    begun: list[tuple[int, _Place]] = []
    found: list[_Version] = []
    for version in sorted(versions, key=_order):
        place = _order(version)
        while following is not None and following.start <= place:
            heappush(begun, (-following.number, following.end))
            following = next(ranges, None)
        while begun and begun[0][1] <= place:
            heappop(begun)
        if begun and -begun[0][0] > written[version]:
            found.append(version)
    return found


# ---- engine keys ----


def _version(engine_key: bytes) -> _Version | None:
    """Return key and timestamp of an engine key; ``None`` if it has no timestamp, like the key of a lock."""
    size = engine_key[-1] if engine_key else 0
    start = len(engine_key) - size  # where the timestamp begins, after the zero byte
    if size not in _SUFFIX_SIZES or start < 1 or engine_key[start - 1] != _SENTINEL:
        return None
    wall = int.from_bytes(engine_key[start : start + 8], "big")
    logical = 0 if size == _WALL else int.from_bytes(engine_key[start + 8 : start + 12], "big")
    return engine_key[: start - 1], Timestamp(wall, logical)


def _order(version: _Version) -> _Place:
    """Return the place of a version in the order of the store: by key, the newest version of a key first."""
    key, timestamp = version
    return key, 1, -timestamp.wall, -timestamp.logical


def _bound(engine_key: bytes) -> _Place:
    """Return the place of a deleted range's bound among versions. A bound without a timestamp comes before
    all versions of its key.
    """
    version = _version(engine_key)
    return (engine_key[:-1], 0, 0, 0) if version is None else _order(version)
