"""Entries to bytes and back; genuine command bytes; every check that one record allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.entries import entries, timestamps
from tidegate.errors import MalformedEntry
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.decode import decode_batch, decode_entry, decode_key
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of, range_of
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Command,
    Entry,
    Generation,
    HistoryMutation,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
    TxnId,
    WriteValue,
)
from tidegate.raftlog.request import (
    AdminMerge,
    AdminSplit,
    Push,
    PushedTxn,
    Scan,
    decode_request,
    encode_request,
)
from tidegate.spans import Span

_RANGE = RangeId(7)

_KEY = encode_key(_RANGE)


@given(entries())
def test_every_entry_round_trips(entry: Entry) -> None:
    assert decode_entry(encode_key(range_of(entry)), encode_entry(entry)) == entry


@given(st.lists(entries(), max_size=5), st.binary(max_size=40))
def test_a_batch_holds_errors_in_the_place_of_what_does_not_decode(batch: list[Entry], junk: bytes) -> None:
    encoded = [(encode_key(range_of(entry)), encode_entry(entry)) for entry in batch]
    decoded = decode_batch([*encoded, (b"not 8 bytes", junk)])
    assert decoded[:-1] == batch
    assert isinstance(decoded[-1], MalformedEntry)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_and_never_crash(junk: bytes) -> None:
    for result in decode_batch([(_KEY, junk)]):
        assert isinstance(result, MalformedEntry | tuple)


@given(entries(), st.data())
def test_a_truncated_entry_never_decodes_to_the_whole_one(entry: Entry, data: st.DataObject) -> None:
    value = encode_entry(entry)
    cut = data.draw(st.integers(0, len(value) - 1))
    (result,) = decode_batch([(encode_key(range_of(entry)), value[:cut])])
    assert result != entry


# ---- RaftCommand as CockroachDB writes it, built from the field numbers ----


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _int(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _timestamp(field: int, wall: int, logical: int = 0) -> bytes:
    return _bytes(field, _int(1, wall) + (_int(2, logical) if logical else b""))


_OP = _bytes(1, _bytes(1, b"key") + _timestamp(2, 10, 3) + _bytes(3, b"value"))

_OP_LOG = _bytes(15, _bytes(1, _OP))


def _command(*fields: bytes) -> Command:
    value = _int(1, _RANGE) + _int(2, 4) + _int(3, 99) + _bytes(4, b"".join(fields))
    entry = decode_entry(_KEY, value)
    assert isinstance(entry, Command)
    return entry


def _snapshot(content: bytes) -> Snapshot:
    entry = decode_entry(_KEY, _int(1, _RANGE) + _bytes(5, content))
    assert isinstance(entry, Snapshot)
    return entry


def _expected(closed: Timestamp | None = None, trigger: Trigger = Trigger.NONE) -> Command:
    op = WriteValue(b"key", Timestamp(10, 3), b"value")
    closed_timestamp = None if closed is None else ClosedTimestamp(closed)
    return Command(_RANGE, Generation(4), RaftIndex(99), (op,), closed_timestamp, trigger, b"")


def test_fields_may_come_in_any_order_with_the_footer_last() -> None:
    footer = _int(4, 12) + _timestamp(17, 5)
    assert _command(_int(6, 3), _OP_LOG, _bytes(13, b""), footer) == _expected(Timestamp(5))
    assert _command(footer, _OP_LOG) == _expected(Timestamp(5))


def test_of_a_repeated_field_the_last_one_wins() -> None:
    assert _command(_timestamp(17, 5, 1), _OP_LOG, _timestamp(17, 6, 2)) == _expected(Timestamp(6, 2))


def test_unknown_fields_are_skipped() -> None:
    trace = _bytes(16, _bytes(1, b"k") + _bytes(2, b"v"))
    admission = _int(18, 1) + _int(19, 2) + _int(20, 3)
    assert _command(trace, _OP_LOG, admission, _bytes(99, b"later")) == _expected()


def test_a_write_batch_beside_the_op_log_is_kept() -> None:
    assert _command(_bytes(14, _bytes(1, b"batch")), _OP_LOG).write_batch == b"batch"


def test_an_empty_op_log_is_not_a_missing_one() -> None:
    batch = _bytes(14, _bytes(1, b"batch"))
    assert _command(batch).ops is None
    assert _command(batch, _bytes(15, b"")).ops == ()
    assert _command().ops == ()


@pytest.mark.parametrize(
    ("field", "trigger"),
    [
        (3, Trigger.SPLIT),
        (4, Trigger.MERGE),
        (17, Trigger.ADD_SSTABLE),
        (24, Trigger.HISTORY_MUTATION),
    ],
)
def test_triggers_are_seen(field: int, trigger: Trigger) -> None:
    assert _command(_bytes(13, _bytes(field, b"")), _OP_LOG) == _expected(trigger=trigger)


def _span(field: int, start: bytes, end: bytes = b"") -> bytes:
    return _bytes(field, _bytes(3, start) + (_bytes(4, end) if end else b""))


def _with_result(*fields: bytes) -> tuple[Trigger, tuple[Span, ...], bool]:
    command = _command(_bytes(13, b"".join(fields)), _OP_LOG)
    return command.trigger, command.mutated, command.at_write_timestamp


def test_an_sstable_names_its_span_and_whether_it_is_all_new() -> None:
    span = _span(3, b"a", b"c")
    new = _bytes(17, _bytes(1, b"table") + _int(2, 5) + span + _int(4, 1))
    assert _with_result(new) == (Trigger.ADD_SSTABLE, (Span(b"a", b"c"),), True)
    assert _with_result(_bytes(17, span)) == (Trigger.ADD_SSTABLE, (Span(b"a", b"c"),), False)


def test_a_history_mutation_names_its_spans_that_of_its_sstable_or_not() -> None:
    mutation = _bytes(24, _span(1, b"a", b"c") + _span(1, b"k"))
    both = (Span(b"a", b"c"), Span(b"k", b"k\0"))
    assert _with_result(mutation) == (Trigger.HISTORY_MUTATION, both, False)
    assert _with_result(_bytes(17, _span(3, b"a", b"c")), mutation)[:2] == (Trigger.HISTORY_MUTATION, both)


@pytest.mark.parametrize("field", [27, 30])
def test_linked_tables_and_excised_spans_are_history_mutations(field: int) -> None:
    change = _bytes(field, _span(1, b"a", b"c") + _span(2, b"locks", b"locks2"))
    assert _with_result(change) == (Trigger.HISTORY_MUTATION, (Span(b"a", b"c"),), False)
    assert _with_result(_bytes(field, b"")) == (Trigger.HISTORY_MUTATION, (), False)


def test_the_write_timestamp_is_read_of_changes_outside_the_op_log_where_it_is_told() -> None:
    span = _bytes(17, _span(3, b"a", b"c"))
    for told, read in ((_timestamp(8, 5, 1), Timestamp(5, 1)), (_timestamp(8, 0), None), (b"", None)):
        for change in (span, _bytes(24, _span(1, b"a")), _bytes(30, b"")):
            assert _command(_bytes(13, told + change), _OP_LOG).write_timestamp == read
    assert _command(_bytes(13, _timestamp(8, 5) + _bytes(3, b"")), _OP_LOG).write_timestamp is None


def test_an_sstable_over_two_spans_cannot_be_written() -> None:
    command = _expected(trigger=Trigger.ADD_SSTABLE)._replace(mutated=(Span(b"a", b"b"), Span(b"c", b"d")))
    with pytest.raises(ValueError, match="too many"):
        encode_entry(command)


def test_a_snapshot_tells_of_no_mutation_of_one_or_nothing() -> None:
    snapshot = _bytes(1, _bytes(3, b"a") + _bytes(4, b"c"))
    told = {
        name: _snapshot(snapshot + field).last_mutation
        for name, field in {
            "nothing": b"",
            "never": _bytes(11, b""),
            "own": _bytes(11, _int(1, 7) + _timestamp(2, 10)),
            "of another": _bytes(11, _timestamp(2, 10)),
        }.items()
    }
    assert told == {
        "nothing": None,
        "never": NEVER_MUTATED,
        "own": HistoryMutation(RaftIndex(7), Timestamp(10)),
        "of another": HistoryMutation(RaftIndex(0), Timestamp(10)),
    }


def test_a_mutation_without_a_time_is_malformed() -> None:
    with pytest.raises(MalformedEntry, match="index 7 has no time"):
        _snapshot(_bytes(1, _bytes(3, b"a") + _bytes(4, b"c")) + _bytes(11, _int(1, 7)))


def test_a_value_that_is_present_and_empty_is_a_tombstone_and_an_absent_one_is_not() -> None:
    head = _bytes(1, b"key") + _timestamp(2, 10)
    tombstone, absent = (
        _command(_bytes(15, _bytes(1, _bytes(1, op)))).ops for op in (head + _bytes(3, b""), head)
    )
    assert tombstone == (WriteValue(b"key", Timestamp(10), b""),)
    assert absent == (WriteValue(b"key", Timestamp(10), None),)


def test_omit_and_origin_have_their_own_numbers_in_each_op() -> None:
    write = _bytes(1, _bytes(1, b"k") + _timestamp(2, 1) + _bytes(3, b"") + _int(5, 2) + _int(6, 1))
    txn = _bytes(1, bytes(16))
    commit = _bytes(4, txn + _bytes(2, b"k") + _timestamp(3, 1) + _bytes(4, b"") + _int(6, 1) + _int(7, 2))
    ops = _command(_bytes(15, _bytes(1, write) + _bytes(1, commit))).ops
    assert ops is not None
    for op in ops:
        assert getattr(op, "omit_in_rangefeeds") is True  # noqa: B009  # not every op has it
        assert getattr(op, "origin_id") == 2  # noqa: B009


# ---- checks ----


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (_KEY, None, "no value"),
        (_KEY, b"\xff\xff\xff", "not a log entry"),
        (_KEY, _int(1, 7), "no kind"),
        (_KEY, _int(1, 8) + _bytes(4, b""), "names range 8"),
        (b"7", _int(1, 7) + _bytes(4, b""), "names range 7"),
        (None, _int(1, 7) + _bytes(4, b""), "key is absent"),
        (bytes(8), _bytes(4, b""), "cannot stand under range 0"),
        (_KEY, _int(1, 7) + _bytes(8, b""), "cannot stand under range 7"),
        (_KEY, _int(1, 7) + _bytes(5, _int(9, 2) + _int(10, 2)), "empty span|chunk 2 of 2"),
        (_KEY, _int(1, 7) + _bytes(4, _bytes(15, _bytes(1, b""))), "logical op is of no kind"),
        (_KEY, _int(1, 7) + _bytes(4, _bytes(15, _bytes(1, _bytes(5, _bytes(1, b"x"))))), "16 bytes"),
        (_KEY, _int(1, 7) + _bytes(4, _timestamp(17, 2**64 - 1)), "negative timestamp"),
        (_KEY, _int(1, 7) + _bytes(4, _bytes(13, _bytes(24, _span(1, b"c", b"a")))), "inverted span"),
        (_KEY, _int(1, 7) + _bytes(4, _bytes(13, _bytes(24, _bytes(1, b"")))), "empty span"),
    ],
)
def test_what_the_contract_forbids_is_refused_with_a_reason(
    key: bytes | None, value: bytes | None, why: str
) -> None:
    with pytest.raises(MalformedEntry, match=why):
        decode_entry(key, value)


def test_a_key_is_eight_bytes_and_not_negative() -> None:
    assert decode_key(encode_key(_RANGE)) == _RANGE
    assert decode_key(None) is decode_key(b"\x01") is decode_key(b"\xff" * 8) is None


def test_partition_is_the_range_id_modulo_the_count() -> None:
    assert [partition_of(RangeId(i), 3) for i in (3, 4, 8)] == [0, 1, 2]


def test_reasons_of_snapshots_have_the_numbers_of_the_contract() -> None:
    assert {reason.name: reason.value for reason in SnapshotReason} == dict(pb.Snapshot.Reason.items())


@given(st.lists(st.binary(min_size=16, max_size=16).map(TxnId), max_size=4))
def test_a_push_round_trips(txn_ids: list[TxnId]) -> None:
    push = Push(_RANGE, tuple(PushedTxn(txn_id, b"anchor") for txn_id in txn_ids), Timestamp(5, 1))
    key, value = encode_request(push)
    assert decode_request(value) == push
    assert decode_key(key) == _RANGE


@given(st.none() | timestamps, st.booleans(), st.booleans())
def test_a_scan_round_trips(after: Timestamp | None, all_versions: bool, with_prev: bool) -> None:
    scan = Scan(_RANGE, 2**64 - 1, Span(b"a", b"b"), after, Timestamp(5, 1), all_versions, with_prev)
    key, value = encode_request(scan)
    assert decode_request(value) == scan
    assert decode_key(key) == _RANGE


def test_requests_of_operators_come_back_as_they_were() -> None:
    for request in (AdminSplit(RangeId(7), b"k"), AdminSplit(RangeId(7)), AdminMerge(RangeId(7))):
        key, value = encode_request(request)
        assert decode_request(value) == request
        assert key == encode_key(RangeId(7))


def test_a_request_of_a_newer_version_is_refused() -> None:
    with pytest.raises(MalformedEntry, match="version 9"):
        decode_request(_int(1, 9))
