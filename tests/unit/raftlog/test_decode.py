"""Genuine bytes of records are read, and every check that one record allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.entries import entries
from tests.unit.raftlog.record_bytes import RANGE, expected, int_field, varint
from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.decode import decode_batch, decode_entry, decode_key
from tidegate.raftlog.encode import encode_entry, encode_key, range_of
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Command,
    Entry,
    HistoryMutation,
    RaftIndex,
    Snapshot,
    SnapshotReason,
    Trigger,
    WriteValue,
)
from tidegate.spans import Span

_KEY = encode_key(RANGE)


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


def bytes_field(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def timestamp_field(field: int, wall: int, logical: int = 0) -> bytes:
    return bytes_field(field, int_field(1, wall) + (int_field(2, logical) if logical else b""))


_OP = bytes_field(1, bytes_field(1, b"key") + timestamp_field(2, 10, 3) + bytes_field(3, b"value"))
_OP_LOG = bytes_field(15, bytes_field(1, _OP))
_SPAN = bytes_field(1, bytes_field(3, b"a") + bytes_field(4, b"c"))


def _command(*fields: bytes) -> Command:
    value = int_field(1, RANGE) + int_field(2, 4) + int_field(3, 99) + bytes_field(4, b"".join(fields))
    entry = decode_entry(_KEY, value)
    assert isinstance(entry, Command)
    return entry


def _snapshot(content: bytes) -> Snapshot:
    entry = decode_entry(_KEY, int_field(1, RANGE) + bytes_field(5, content))
    assert isinstance(entry, Snapshot)
    return entry


def test_fields_may_come_in_any_order_with_the_footer_last() -> None:
    footer = int_field(4, 12) + timestamp_field(17, 5)
    assert _command(int_field(6, 3), _OP_LOG, bytes_field(13, b""), footer) == expected(Timestamp(5))
    assert _command(footer, _OP_LOG) == expected(Timestamp(5))


def test_of_a_repeated_field_the_last_one_wins() -> None:
    assert _command(timestamp_field(17, 5, 1), _OP_LOG, timestamp_field(17, 6, 2)) == expected(
        Timestamp(6, 2)
    )


def test_unknown_fields_are_skipped() -> None:
    trace = bytes_field(16, bytes_field(1, b"k") + bytes_field(2, b"v"))
    admission = int_field(18, 1) + int_field(19, 2) + int_field(20, 3)
    assert _command(trace, _OP_LOG, admission, bytes_field(99, b"later")) == expected()


def test_a_write_batch_beside_the_op_log_is_kept() -> None:
    assert _command(bytes_field(14, bytes_field(1, b"batch")), _OP_LOG).write_batch == b"batch"


def test_an_op_takes_its_missing_value_from_the_write_batch_beside_it() -> None:
    engine_key = b"key\0" + (10).to_bytes(8, "big") + (3).to_bytes(4, "big") + b"\x0d"
    stored = b"\0\0\0\0\x03value"
    data = bytes(8) + b"\x01\0\0\0" + b"\x01" + varint(len(engine_key)) + engine_key
    batch = bytes_field(14, bytes_field(1, data + varint(len(stored)) + stored))
    op = bytes_field(1, bytes_field(1, b"key") + timestamp_field(2, 10, 3))
    assert _command(batch, bytes_field(15, bytes_field(1, op))).ops == (
        WriteValue(b"key", Timestamp(10, 3), stored),
    )


def test_an_empty_op_log_is_not_a_missing_one() -> None:
    batch = bytes_field(14, bytes_field(1, b"batch"))
    assert _command(batch).ops is None
    assert _command(batch, bytes_field(15, b"")).ops == ()
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
    assert _command(bytes_field(13, bytes_field(field, b"")), _OP_LOG) == expected(trigger=trigger)


def span_field(field: int, start: bytes, end: bytes = b"") -> bytes:
    return bytes_field(field, bytes_field(3, start) + (bytes_field(4, end) if end else b""))


def _with_result(*fields: bytes) -> tuple[Trigger, tuple[Span, ...], bool]:
    command = _command(bytes_field(13, b"".join(fields)), _OP_LOG)
    return command.trigger, command.mutated, command.at_write_timestamp


def test_an_sstable_names_its_span_and_whether_it_is_all_new() -> None:
    span = span_field(3, b"a", b"c")
    new = bytes_field(17, bytes_field(1, b"table") + int_field(2, 5) + span + int_field(4, 1))
    assert _with_result(new) == (Trigger.ADD_SSTABLE, (Span(b"a", b"c"),), True)
    assert _with_result(bytes_field(17, span)) == (Trigger.ADD_SSTABLE, (Span(b"a", b"c"),), False)


def test_a_history_mutation_names_its_spans_that_of_its_sstable_or_not() -> None:
    mutation = bytes_field(24, span_field(1, b"a", b"c") + span_field(1, b"k"))
    both = (Span(b"a", b"c"), Span(b"k", b"k\0"))
    assert _with_result(mutation) == (Trigger.HISTORY_MUTATION, both, False)
    assert _with_result(bytes_field(17, span_field(3, b"a", b"c")), mutation)[:2] == (
        Trigger.HISTORY_MUTATION,
        both,
    )


@pytest.mark.parametrize(("move", "trigger"), [(3, Trigger.SPLIT), (4, Trigger.MERGE)])
@pytest.mark.parametrize(("change", "also"), [(17, Trigger.ADD_SSTABLE), (24, Trigger.HISTORY_MUTATION)])
def test_a_split_or_merge_hides_no_change_outside_the_op_log(
    move: int, trigger: Trigger, change: int, also: Trigger
) -> None:
    span = span_field(3 if change == 17 else 1, b"a", b"c")
    result = bytes_field(move, b"") + bytes_field(change, span) + timestamp_field(8, 5)
    command = _command(bytes_field(13, result), _OP_LOG)
    assert (command.trigger, command.also) == (trigger, also)
    assert command.mutates
    assert command.mutated_spans((Span(b"a", b"z"),)) == (Span(b"a", b"c"),)
    assert command.write_timestamp == Timestamp(5)
    assert decode_entry(_KEY, encode_entry(command)) == command


def test_of_several_changes_in_a_command_the_spans_of_all_count() -> None:
    """If one of them does not say where it is, it may be anywhere."""
    mutation, sstable = bytes_field(24, span_field(1, b"a", b"c")), bytes_field(17, span_field(3, b"f", b"g"))
    assert _with_result(mutation, sstable)[1] == (Span(b"a", b"c"), Span(b"f", b"g"))
    for silent in (bytes_field(17, b""), bytes_field(27, b""), bytes_field(30, b"")):
        assert _with_result(mutation, silent)[1] == ()
    assert _with_result(bytes_field(24, b""), sstable)[1] == ()


@pytest.mark.parametrize("field", [27, 30])
def test_linked_tables_and_excised_spans_are_history_mutations(field: int) -> None:
    change = bytes_field(field, span_field(1, b"a", b"c") + span_field(2, b"locks", b"locks2"))
    assert _with_result(change) == (Trigger.HISTORY_MUTATION, (Span(b"a", b"c"),), False)
    assert _with_result(bytes_field(field, b"")) == (Trigger.HISTORY_MUTATION, (), False)


def test_the_write_timestamp_is_read_of_changes_outside_the_op_log_where_it_is_told() -> None:
    span = bytes_field(17, span_field(3, b"a", b"c"))
    for told, read in (
        (timestamp_field(8, 5, 1), Timestamp(5, 1)),
        (timestamp_field(8, 1), Timestamp(1)),
        (timestamp_field(8, 0), None),
        (b"", None),
    ):
        for change in (span, bytes_field(24, span_field(1, b"a")), bytes_field(30, b"")):
            assert _command(bytes_field(13, told + change), _OP_LOG).write_timestamp == read
    assert (
        _command(bytes_field(13, timestamp_field(8, 5) + bytes_field(3, b"")), _OP_LOG).write_timestamp
        is None
    )


def test_a_snapshot_tells_of_no_mutation_of_one_or_nothing() -> None:
    told = {
        name: _snapshot(_SPAN + field).last_mutation
        for name, field in {
            "nothing": b"",
            "never": bytes_field(11, b""),
            "own": bytes_field(11, int_field(1, 7) + timestamp_field(2, 10)),
            "of another": bytes_field(11, timestamp_field(2, 10)),
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
        _snapshot(_SPAN + bytes_field(11, int_field(1, 7)))


@pytest.mark.parametrize(
    ("chunk", "chunks", "read"),
    [(0, 0, (0, 1)), (0, 1, (0, 1)), (1, 2, (1, 2)), (1_023, 1_024, (1_023, 1_024))],
)
def test_a_snapshot_has_as_many_chunks_as_it_says_and_one_if_it_does_not(
    chunk: int, chunks: int, read: tuple[int, int]
) -> None:
    snapshot = _snapshot(_SPAN + int_field(9, chunk) + int_field(10, chunks))
    assert (snapshot.chunk, snapshot.chunks) == read


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (int_field(9, 2) + int_field(10, 2), "snapshot chunk 2 of 2"),
        (int_field(9, 3) + int_field(10, 2), "snapshot chunk 3 of 2"),
        (int_field(9, 1), "snapshot chunk 1 of 1"),
        (int_field(10, 1_025), "a snapshot of 1025 chunks: at most 1,024 are read"),
        (bytes_field(7, b""), "parent is range 0: range ids are above 0"),
        (bytes_field(7, int_field(1, 2**64 - 3)), "parent is range -3"),
    ],
)
def test_a_snapshot_with_chunks_or_parents_that_cannot_be_is_refused(field: bytes, why: str) -> None:
    with pytest.raises(MalformedEntry, match=why):
        _snapshot(_SPAN + field)


def test_a_stored_snapshot_may_have_more_chunks() -> None:
    """An earlier version has taken it."""
    value = int_field(1, RANGE) + bytes_field(5, _SPAN + int_field(10, 1_025))
    entry = decode_entry(_KEY, value, is_stored=True)
    assert isinstance(entry, Snapshot)
    assert entry.chunks == 1_025


_OPEN_INTENT = _SPAN + bytes_field(5, bytes_field(1, bytes(16)) + bytes_field(3, b"b"))


def test_an_open_intent_has_a_timestamp() -> None:
    with pytest.raises(MalformedEntry, match=f"an open intent of transaction {'00' * 16} .* no timestamp"):
        _snapshot(_OPEN_INTENT)


def test_a_stored_snapshot_may_have_an_open_intent_without_a_timestamp() -> None:
    """An earlier version has taken it: the state that holds it must not be lost."""
    entry = decode_entry(_KEY, int_field(1, RANGE) + bytes_field(5, _OPEN_INTENT), is_stored=True)
    assert isinstance(entry, Snapshot)
    assert [intent.timestamp for intent in entry.intents] == [ZERO]


def test_a_value_that_is_present_and_empty_is_a_tombstone_and_an_absent_one_is_not() -> None:
    head = bytes_field(1, b"key") + timestamp_field(2, 10)
    tombstone, absent = (
        _command(bytes_field(15, bytes_field(1, bytes_field(1, op)))).ops
        for op in (head + bytes_field(3, b""), head)
    )
    assert tombstone == (WriteValue(b"key", Timestamp(10), b""),)
    assert absent == (WriteValue(b"key", Timestamp(10), None),)


def test_omit_and_origin_have_their_own_numbers_in_each_op() -> None:
    write = bytes_field(
        1,
        bytes_field(1, b"k")
        + timestamp_field(2, 1)
        + bytes_field(3, b"")
        + int_field(5, 2)
        + int_field(6, 1),
    )
    txn = bytes_field(1, bytes(16))
    commit = bytes_field(
        4,
        txn
        + bytes_field(2, b"k")
        + timestamp_field(3, 1)
        + bytes_field(4, b"")
        + int_field(6, 1)
        + int_field(7, 2),
    )
    ops = _command(bytes_field(15, bytes_field(1, write) + bytes_field(1, commit))).ops
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
        (_KEY, int_field(1, 7), "no kind"),
        (_KEY, int_field(1, 8) + bytes_field(4, b""), "names range 8"),
        (b"7", int_field(1, 7) + bytes_field(4, b""), "names range 7"),
        (None, int_field(1, 7) + bytes_field(4, b""), "key is absent"),
        (bytes(8), bytes_field(4, b""), "cannot stand under range 0"),
        (_KEY, int_field(1, 7) + bytes_field(8, b""), "cannot stand under range 7"),
        (_KEY, int_field(1, 7) + bytes_field(5, bytes_field(1, b"")), "empty span"),
        (
            _KEY,
            int_field(1, 7) + bytes_field(4, bytes_field(15, bytes_field(1, b""))),
            "logical op is of no kind",
        ),
        (
            _KEY,
            int_field(1, 7)
            + bytes_field(4, bytes_field(15, bytes_field(1, bytes_field(5, bytes_field(1, b"x"))))),
            "16 bytes",
        ),
        (_KEY, int_field(1, 7) + bytes_field(4, timestamp_field(17, 2**64 - 1)), "negative timestamp"),
        (
            _KEY,
            int_field(1, 7) + bytes_field(4, bytes_field(13, bytes_field(24, span_field(1, b"c", b"a")))),
            "inverted span",
        ),
        (
            _KEY,
            int_field(1, 7) + bytes_field(4, bytes_field(13, bytes_field(24, bytes_field(1, b"")))),
            "empty span",
        ),
    ],
)
def test_what_the_contract_forbids_is_refused_with_a_reason(
    key: bytes | None, value: bytes | None, why: str
) -> None:
    with pytest.raises(MalformedEntry, match=why):
        decode_entry(key, value)


@pytest.mark.parametrize(("start", "end"), [(b"c", b"c"), (b"c", b"a"), (b"c", b""), (b"", b"")])
def test_a_range_tombstone_has_keys(start: bytes, end: bytes) -> None:
    op = bytes_field(7, bytes_field(1, start) + bytes_field(2, end) + timestamp_field(3, 10))
    with pytest.raises(MalformedEntry, match=f"needs start < end: {start.hex()}, {end.hex()}$"):
        _command(bytes_field(15, bytes_field(1, op)))


@pytest.mark.parametrize(("size", "shown"), [(40, "ab" * 40), (41, "ab" * 40 + r"\.\.\.")])
def test_a_sentence_shows_the_beginning_of_long_bytes(size: int, shown: str) -> None:
    with pytest.raises(MalformedEntry, match=f"key is {shown}, but"):
        decode_entry(b"\xab" * size, int_field(1, 7) + bytes_field(4, b""))


def test_a_key_is_eight_bytes_and_not_negative() -> None:
    assert decode_key(encode_key(RANGE)) == RANGE
    assert decode_key(None) is decode_key(b"\x01") is decode_key(b"\xff" * 8) is None


def test_reasons_of_snapshots_have_the_numbers_of_the_contract() -> None:
    assert {reason.name: reason.value for reason in SnapshotReason} == dict(pb.Snapshot.Reason.items())
