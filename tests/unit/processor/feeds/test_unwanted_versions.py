"""Work that nobody asked for is not done: only versions that an active feed wants are decoded."""

from __future__ import annotations

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, txn, update_of
from tests.unit.processor.driving import Driven, active
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Activate, Remove
from tidegate.hlc import Timestamp
from tidegate.processor.feeds.version_rows import PartitionRows, Starts, TableRowError
from tidegate.raftlog.entry import CommitIntent, RaftIndex, RangeId, WriteValue
from tidegate.ranges.version import Version
from tidegate.rows import Row, TableCodec
from tidegate.rows.table_key import index_prefix

PLAIN = HandTable.of(104, "plain")
OTHER = HandTable.of(105, "other")
_DIFF = FeedOptions(diff=True, resolved_interval_ns=0)
_NOTHING: dict[int, Timestamp] = {}


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The values that table codecs are asked to decode, as they are asked; they still do it."""
    seen: list[bytes] = []
    decode = TableCodec.decode

    def watched(codec: TableCodec, key: bytes, value: bytes) -> Row | None:
        seen.append(value)
        return decode(codec, key, value)

    monkeypatch.setattr(TableCodec, "decode", watched)
    return seen


def log_of(*ops: WriteValue | CommitIntent, table: HandTable = PLAIN) -> HandLog:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    log.open_range(1, table.span).apply(*ops, close=99)
    return log


def run(log: HandLog, *feeds: Activate) -> Driven:
    driven = Driven()
    driven.control(*feeds)
    driven.run(log.partitions[0])
    assert driven.causes == []
    return driven


# ---- in the whole step ----


@pytest.mark.python_step
def test_versions_below_every_feeds_start_are_not_decoded(values: list[bytes]) -> None:
    ops = [PLAIN.put(seconds, 1, str(seconds)) for seconds in (4, 6, 8)]
    feeds = [activation([PLAIN.descriptor], start=at(start), feed_id=f"from{start}") for start in (5, 7)]
    run(log_of(*ops), *feeds)
    assert values == [op.value for op in ops[1:]]


@pytest.mark.python_step
def test_the_rows_of_a_table_without_a_feed_are_not_decoded(values: list[bytes]) -> None:
    run(log_of(OTHER.put(2, 1, "a"), OTHER.delete(3, 1), table=OTHER), activation([PLAIN.descriptor]))
    assert values == []


@pytest.mark.python_step
def test_a_row_is_decoded_once_however_many_feeds_want_it(values: list[bytes]) -> None:
    op = PLAIN.put(2, 1, "a")
    run(log_of(op), *(activation([PLAIN.descriptor], feed_id=name) for name in ("one", "two")))
    assert values == [op.value]


@pytest.mark.python_step
def test_nothing_is_decoded_once_the_last_feed_is_gone(values: list[bytes]) -> None:
    log = log_of(PLAIN.put(2, 1, "a"))
    driven = active(activation([PLAIN.descriptor]))
    driven.control(Remove(FeedId("feed"), FIRST_EPOCH))
    driven.run(log.partitions[0])
    assert values == []


@pytest.mark.python_step
def test_what_a_writer_wants_omitted_is_not_decoded(values: list[bytes]) -> None:
    key, value = PLAIN.pair(1, "hidden")
    ops = (
        PLAIN.put(2, 1, "hidden")._replace(omit_in_rangefeeds=True),
        CommitIntent(txn(1), key, at(3), value, omit_in_rangefeeds=True),
    )
    run(log_of(*ops), activation([PLAIN.descriptor], _DIFF))
    assert values == []


@pytest.mark.python_step
def test_a_previous_value_is_decoded_only_for_a_feed_that_needs_it(values: list[bytes]) -> None:
    old = PLAIN.pair(1, "old")[1]
    op = PLAIN.put(2, 1, "new")._replace(prev_value=old)
    run(log_of(op), activation([PLAIN.descriptor]))
    assert values == [op.value]
    run(log_of(op), activation([PLAIN.descriptor], _DIFF))
    assert values == [op.value, op.value, old]


# ---- in the stage alone ----


def rows_of(*tables: HandTable) -> PartitionRows:
    rows = PartitionRows()
    for table in tables:
        rows.learn(update_of(table.descriptor))
    return rows


def version(op: WriteValue) -> Version:
    assert op.value is not None
    return Version(
        op.key, op.timestamp, op.value, op.prev_value, op.omit_in_rangefeeds, RangeId(1), RaftIndex(1), 0
    )


@pytest.mark.python_step
def test_what_is_at_or_below_the_start_of_every_feed_is_not_decoded(values: list[bytes]) -> None:
    versions = [version(PLAIN.put(second, second, "v")) for second in (4, 5, 6)]
    starts = Starts({PLAIN.descriptor.id: at(5)}, _NOTHING)
    rows = rows_of(PLAIN).decode(versions, {PLAIN.descriptor.id}, starts=starts)
    assert [row is not None for row in rows] == [False, False, True]
    assert values == [versions[2].value]


@pytest.mark.python_step
def test_a_start_binds_its_table_alone(values: list[bytes]) -> None:
    tables = {PLAIN.descriptor.id, OTHER.descriptor.id}
    versions = [version(PLAIN.put(4, 1, "v")), version(OTHER.put(4, 1, "w"))]
    rows_of(PLAIN, OTHER).decode(versions, tables, starts=Starts({PLAIN.descriptor.id: at(5)}, _NOTHING))
    assert values == [versions[1].value]


@pytest.mark.python_step
def test_previous_values_have_a_start_of_their_own(values: list[bytes]) -> None:
    table = PLAIN.descriptor.id
    old = PLAIN.pair(1, "old")[1]
    versions = [version(PLAIN.put(second, 1, "v")._replace(prev_value=old)) for second in (5, 6)]
    starts = Starts({table: at(1)}, {table: at(5)})
    rows = rows_of(PLAIN).decode(versions, {table}, {table}, starts)
    assert [row.previous for row in rows if isinstance(row, Row)] == [None, (1, "old")]
    assert values.count(old) == 1


def test_what_is_not_decoded_cannot_fail_and_does_not_bind_later_descriptors() -> None:
    table = PLAIN.descriptor.id
    broken = version(PLAIN.put(4, 1, "v"))._replace(value=b"broken")
    rows = rows_of(PLAIN)
    assert rows.decode([broken], {table}, starts=Starts({table: at(4)}, _NOTHING)) == [None]
    assert list(rows.freeze())[1:] == []  # the descriptor alone: no highest timestamp of a row that was read
    assert isinstance(rows.decode([broken], {table})[0], TableRowError)


def test_the_value_of_another_index_is_not_looked_into() -> None:
    table = PLAIN.descriptor.id
    entry = Version(
        index_prefix(table, 2) + b"\x89\x88", at(2), b"broken", b"broken", False, RangeId(1), RaftIndex(1), 0
    )
    assert rows_of(PLAIN).decode([entry], {table}, {table}) == [None]
