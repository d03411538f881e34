"""Values that stand in the write batch of their command, written here from the format's description."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import entries
from tidegate.errors import MalformedEntry
from tidegate.hlc import MAX_LOGICAL, ZERO, Timestamp
from tidegate.raftlog.decode import decode_batch, decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    Command,
    CommitIntent,
    DeleteRange,
    Generation,
    Op,
    RaftIndex,
    RangeId,
    TxnId,
    WriteValue,
)
from tidegate.raftlog.write_batch import KeyKind, with_values
from tidegate.rows.mvcc_key import MvccKey, encode_mvcc_key
from tidegate.rows.value_frame import join_header

_TXN = TxnId(bytes(16))
_VALUE = bytes.fromhex("0000000003") + b"value"
_T = Timestamp(1_700_000_000_000_000_000, 7)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _string(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _record(kind: int, key: bytes, value: bytes | None = None) -> bytes:
    return bytes([kind]) + _string(key) + (b"" if value is None else _string(value))


def _batch(*records: bytes, count: int | None = None, sequence: int = 0) -> bytes:
    counted = len(records) if count is None else count
    return sequence.to_bytes(8, "little") + counted.to_bytes(4, "little") + b"".join(records)


def _set(key: bytes, timestamp: Timestamp, value: bytes, *, synthetic: bool = False) -> bytes:
    return _record(KeyKind.SET, encode_mvcc_key(MvccKey(key, timestamp, synthetic)), value)


def _write(key: bytes = b"k", timestamp: Timestamp = _T, value: bytes | None = None) -> WriteValue:
    return WriteValue(key, timestamp, value)


def _found(*records: bytes, op: WriteValue | None = None) -> bytes | None:
    (filled,) = with_values((op or _write(),), _batch(*records))
    assert isinstance(filled, WriteValue)
    return filled.value


# ---- what is found ----

_versions = st.dictionaries(
    st.tuples(
        st.binary(max_size=140),
        st.builds(Timestamp, st.integers(1, 2**63 - 1), st.just(0) | st.integers(0, MAX_LOGICAL)),
    ),
    st.just(b"") | st.binary(max_size=200).map(lambda body: b"\0\0\0\0\x03" + body),
    max_size=6,
)


@given(_versions, st.data())
def test_ops_without_values_decode_as_those_with_them(
    versions: dict[tuple[bytes, Timestamp], bytes], data: st.DataObject
) -> None:
    whole: tuple[WriteValue | CommitIntent, ...] = tuple(
        CommitIntent(_TXN, key, timestamp, value, b"p")
        if data.draw(st.booleans())
        else _write(key, timestamp, value)
        for (key, timestamp), value in versions.items()
    )
    pointing: tuple[Op, ...] = tuple(op._replace(value=None) for op in whole)
    records = [_set(key, timestamp, value) for (key, timestamp), value in versions.items()]
    command = Command(
        RangeId(7),
        Generation(1),
        RaftIndex(3),
        pointing,
        None,
        write_batch=_batch(*data.draw(st.permutations(records))),
    )
    decoded = decode_entry(encode_key(RangeId(7)), encode_entry(command))
    assert decoded == command._replace(ops=whole)


@pytest.mark.parametrize("synthetic", [False, True])
@pytest.mark.parametrize("logical", [0, 7])
def test_a_version_is_found_under_every_form_of_its_timestamp(logical: int, synthetic: bool) -> None:
    at = Timestamp(_T.wall, logical)
    assert _found(_set(b"k", at, _VALUE, synthetic=synthetic), op=_write(timestamp=at)) == _VALUE


def test_a_logical_part_of_zero_may_be_written_out() -> None:
    at = Timestamp(_T.wall)
    engine_key = b"k\0" + at.wall.to_bytes(8, "big") + bytes(4) + b"\x0d"
    assert _found(_record(KeyKind.SET, engine_key, _VALUE), op=_write(timestamp=at)) == _VALUE


def test_an_empty_value_in_the_batch_is_a_tombstone() -> None:
    assert _found(_set(b"k", _T, b"")) == b""


@pytest.mark.parametrize("size", [127, 128, 300, 16_383, 16_384])
def test_keys_and_values_are_found_whatever_their_size(size: int) -> None:
    value = b"\0\0\0\0\x03" + b"v" * (size - 5)
    assert _found(_set(b"a", _T, b""), _set(b"k", _T, value)) == value
    key = b"k" * (size - 14)  # beside the zero byte and the timestamp
    assert _found(_set(b"a", _T, b""), _set(key, _T, _VALUE), op=_write(key)) == _VALUE


def test_of_a_version_written_twice_the_last_one_counts() -> None:
    assert _found(_set(b"k", _T, b"\0\0\0\0\x03old"), _set(b"k", _T, _VALUE)) == _VALUE


def test_other_versions_and_keys_are_not_taken() -> None:
    others = (
        _set(b"k", _T.next(), _VALUE),
        _set(b"k", Timestamp(_T.wall), _VALUE),
        _set(b"kk", _T, _VALUE),
        _set(b"", _T, _VALUE),
        _record(KeyKind.SET, b"k\0", _VALUE),
        _record(KeyKind.SET, b"", _VALUE),
        _record(KeyKind.SET, encode_mvcc_key(MvccKey(b"k", _T)).replace(b"k\0", b"k\1", 1), _VALUE),
        _record(KeyKind.SET, b"k\0" + b"\x03" + bytes(16) + b"\x12", _VALUE),  # a lock
    )
    assert _found(*others) is None


def test_a_version_without_timestamp_stays_absent() -> None:
    """An inline value is wrapped in metadata, and no feed shows it."""
    assert _found(_record(KeyKind.SET, b"k\0", _VALUE), op=_write(timestamp=ZERO)) is None


def test_an_op_keeps_what_it_brought() -> None:
    brought = WriteValue(b"k", _T, b"own", b"before", True, 3)
    pointing = CommitIntent(_TXN, b"l", _T, None, b"before", False, 3)
    untouched = DeleteRange(b"a", b"b", _T)
    batch = _batch(_set(b"k", _T, _VALUE), _set(b"l", _T, _VALUE))
    assert with_values((brought, pointing, untouched), batch) == (
        brought,
        pointing._replace(value=_VALUE),
        untouched,
    )


# ---- records that take a version away, or leave it alone ----


@pytest.mark.parametrize("kind", [KeyKind.DELETE, KeyKind.SINGLE_DELETE, KeyKind.DELETE_SIZED, KeyKind.MERGE])
def test_a_version_removed_or_merged_later_is_not_found(kind: KeyKind) -> None:
    value = b"\x05" if kind in (KeyKind.DELETE_SIZED, KeyKind.MERGE) else None
    gone = _record(kind, encode_mvcc_key(MvccKey(b"k", _T)), value)
    assert _found(_set(b"k", _T, _VALUE), gone) is None
    assert _found(gone, _set(b"k", _T, _VALUE)) == _VALUE


@pytest.mark.parametrize(
    ("start", "end", "stays"),
    [
        (MvccKey(b"k"), MvccKey(b"l"), False),
        (MvccKey(b"a"), MvccKey(b"k"), True),  # ends in front of all versions of the key
        (MvccKey(b"a"), MvccKey(b"k", _T), True),  # ends at the version, exclusive
        (MvccKey(b"a"), MvccKey(b"k", _T.prev()), False),  # the next older one
        (MvccKey(b"k", _T), MvccKey(b"l"), False),
        (MvccKey(b"k", _T.prev()), MvccKey(b"l"), True),
        (MvccKey(b"l"), MvccKey(b"m"), True),
    ],
)
def test_a_deleted_range_takes_versions_in_the_order_of_the_store(
    start: MvccKey, end: MvccKey, stays: bool
) -> None:
    gone = _record(KeyKind.RANGE_DELETE, encode_mvcc_key(start), encode_mvcc_key(end))
    assert _found(_set(b"k", _T, _VALUE), gone) == (_VALUE if stays else None)
    assert _found(gone, _set(b"k", _T, _VALUE)) == _VALUE


@pytest.mark.parametrize("kind", [KeyKind.RANGE_KEY_SET, KeyKind.RANGE_KEY_UNSET, KeyKind.RANGE_KEY_DELETE])
def test_range_keys_leave_versions_alone(kind: KeyKind) -> None:
    assert _found(_set(b"k", _T, _VALUE), _record(kind, b"a\0", b"z\0")) == _VALUE


def test_log_data_is_passed_over_and_not_counted() -> None:
    batch = _batch(_record(KeyKind.LOG_DATA, b"note"), _set(b"k", _T, _VALUE), count=1, sequence=2**63)
    assert with_values((_write(),), batch) == (_write(value=_VALUE),)


# ---- the header in front of a value ----


def _header(*fields: tuple[int, int]) -> bytes:
    return b"".join(_varint(number << 3) + _varint(content) for number, content in fields)


_LOCAL_TIMESTAMP = b"\x0a\x02\x08\x09"  # as in CockroachDB's pkg/storage/mvcc_value_test.go


@pytest.mark.parametrize("value", [_VALUE, b""])
def test_the_header_is_taken_off(value: bytes) -> None:
    assert _found(_set(b"k", _T, join_header(_LOCAL_TIMESTAMP, value))) == value
    assert _found(_set(b"k", _T, join_header(b"", value))) == value


def test_what_the_header_says_of_the_op_is_kept() -> None:
    header = _LOCAL_TIMESTAMP + _header((3, 1), (4, 12), (5, 2), (99, 1))
    batch = _batch(_set(b"k", _T, join_header(header, _VALUE)))
    plain = WriteValue(b"k", _T, None, b"p")
    assert with_values((plain,), batch) == (WriteValue(b"k", _T, _VALUE, b"p", True, 2),)


def test_what_the_op_says_outlives_a_value_without_header() -> None:
    op = WriteValue(b"k", _T, None, None, True, 5)
    assert with_values((op,), _batch(_set(b"k", _T, _VALUE))) == (op._replace(value=_VALUE),)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (bytes(11), "header of 12 bytes, this one has 11"),
        (_batch(count=1), "announces 1 records and has 0"),
        (_batch(_set(b"k", _T, _VALUE), count=2), "announces 2 records and has 1"),
        (_batch(b"\x01"), "cut off or damaged at byte 13"),
        (_batch(b"\x01\x02k"), "cut off or damaged at byte 13"),
        (_batch(b"\x01\x01k"), "cut off or damaged at byte 15"),
        (_batch(b"\x01\x01k\x80"), "cut off or damaged at byte 15"),
        (_batch(b"\x01\x81\x80\x80\x80\x80\x00k\x00"), "cut off or damaged at byte 13"),
        (_batch(_record(KeyKind.SET, b"a", b""), b"\x12\x01k\x01v"), "unknown kind 18 at byte 16"),
        (_batch(_record(22, b"\x07")), "unknown kind 22 at byte 12"),
        (_batch(_record(24, b"a", b"z")), "unknown kind 24"),
        (_batch(_record(255, b"a")), "unknown kind 255"),
        (_batch(_set(b"k", _T, b"\0\0\0\0")), "a value of 4 bytes, too few"),
        (_batch(_set(b"k", _T, b"\0\0\0\x01\x65")), "5 bytes whose header would end at byte 6"),
        (_batch(_set(b"k", _T, join_header(b"\x0a\x05", _VALUE))), "unreadable header"),
    ],
)
def test_what_is_no_batch_is_refused_with_a_reason(batch: bytes, why: str) -> None:
    with pytest.raises(MalformedEntry, match=why):
        with_values((_write(),), batch)


@pytest.mark.parametrize("value", [b"", b"own"])
def test_a_batch_is_read_only_for_an_op_without_value(value: bytes) -> None:
    ops = (_write(value=value),)
    assert with_values(ops, b"no batch") is ops


def test_without_a_batch_the_value_stays_absent() -> None:
    assert with_values((_write(),), b"") == (_write(),)


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused_and_never_crash(junk: bytes) -> None:
    _read_or_refused((_write(),), junk)


@given(st.data())
def test_damage_in_a_batch_is_refused_or_harmless_and_never_crashes(data: st.DataObject) -> None:
    records = [
        _set(b"k", _T, join_header(_LOCAL_TIMESTAMP, _VALUE)),
        _record(KeyKind.RANGE_DELETE, b"a\0", b"b\0"),
        _record(KeyKind.SINGLE_DELETE, b"k\0"),
        _record(KeyKind.LOG_DATA, b"note"),
    ]
    batch = bytearray(_batch(*records, count=3))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    _read_or_refused((_write(),), bytes(batch[: data.draw(st.integers(0, len(batch)))]))


def _read_or_refused(ops: tuple[Op, ...], batch: bytes) -> None:
    try:
        filled = with_values(ops, batch)
    except MalformedEntry as error:
        assert "write batch" in str(error)  # noqa: PT017  # either outcome is right
    else:
        assert len(filled) == len(ops)


@given(st.lists(entries.ops(), max_size=4).map(tuple), st.binary(min_size=1, max_size=30))
def test_an_entry_fails_by_its_batch_only_where_it_needs_it(ops: tuple[Op, ...], batch: bytes) -> None:
    command = Command(RangeId(7), Generation(1), RaftIndex(3), ops, None, write_batch=batch)
    (decoded,) = decode_batch([(encode_key(RangeId(7)), encode_entry(command))])
    if all(op.value is not None for op in ops if isinstance(op, WriteValue | CommitIntent)):
        assert decoded == command
    else:
        assert isinstance(decoded, MalformedEntry | Command)
