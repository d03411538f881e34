"""Rows of a DataFrame decoded in one go: as rows are that are decoded each by itself."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.hostile_records import KEYS, VALUES
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.errors import InputError, TidegateError, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.spark.datasource.frame_rows import FrameRowReader, FrameRows
from tidegate.spark.datasource.source_feed import FrameTable
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns
from tidegate.subscribe.gate.row_chunk import RowChunk
from tidegate.subscribe.gate.stamps import stamp
from tidegate.subscribe.gate.version_reader import VersionReader

PLACE = FeedPartition("accounts", 0)
COLUMNS = tuple(LoadedColumn(*each) for each in (("id", "INT8"), ("balance", "JSONB"), ("note", "STRING")))
TABLE = FrameTable("db.public.accounts", "accounts", "id", 1, Columns(("id",), COLUMNS))
PLAIN = FeedOptions(updated=True)
DIFF = FeedOptions(updated=True, diff=True)
FULL = FeedOptions(updated=True, diff=True, mvcc_timestamp=True, key_in_value=True, topic_in_value=True)
#: Values that the gate can tell the time of: the others are decoded alone before they come here.
STAMPED = tuple(each for each in VALUES if stamp(each) is not None and len(each or b"") < 10_000)


def row(
    key: int, after: str = '{"id": %d, "balance": 2, "note": "a"}', before: str | None = None, more: str = ""
) -> tuple[bytes, bytes]:
    """Key and value of a record."""
    shown = after % key if "%d" in after else after
    beside = "" if before is None else f', "before": {before}'
    return b"[%d]" % key, f'{{"after": {shown}{beside}{more}, "updated": "5.0000000000"}}'.encode()


def reading(options: FeedOptions, table: FrameTable = TABLE) -> tuple[FrameRowReader, VersionReader]:
    decoder = decoder_for(options)
    versions = VersionReader({"accounts": decoder})

    def decode(record: FeedRecord) -> Any:
        return versions.row(PLACE, record)

    return FrameRowReader(table, decoder, decode, tells_before=options.diff), versions


def chunk_of(versions: VersionReader, *records: tuple[bytes, bytes | None]) -> RowChunk:
    chunk = versions.chunk(
        PLACE, RecordColumns.of([FeedRecord(at, *each) for at, each in enumerate(records)])
    )
    assert chunk is not None
    return chunk


def shown(read: Any, chunk: RowChunk) -> Any:
    """Return what is read, or the error."""
    try:
        rows: FrameRows = read(chunk)
    except TidegateError as error:
        return type(error), str(error)
    return (
        rows.walls.tolist(),
        rows.logicals.tolist(),
        list(rows.deleted),
        repr([list(column) for column in rows.after]),
        # What stands where there was no row before is never shown.
        repr(
            [[value for value, new in zip(each, rows.is_new, strict=True) if not new] for each in rows.before]
        ),
        list(rows.is_new),
    )


def good_rows() -> st.SearchStrategy[tuple[bytes, bytes | None]]:
    rows = st.sampled_from(
        [
            '{"id": %d, "balance": 2, "note": "a"}',
            '{"id": %d, "balance": {"a": [1, {"b": 2.50}]}, "note": "\\": "}',
            '{"id": %d, "note": "a"}',
            '{"balance": null}',
            '{"note": 1e3, "id": %d, "balance": -0.0}',
            "null",
        ]
    )
    before = st.sampled_from([None, "null", '{"id": 1, "balance": [], "note": "b"}', '{"id": 1}'])
    more = st.sampled_from(
        ["", ', "key": [1], "mvcc_timestamp": "4.0000000001", "topic": "accounts"', ', "mvcc_timestamp": "x"']
    )
    return st.builds(row, st.integers(0, 9), rows, before, more)


@given(
    records=st.lists(
        st.one_of(good_rows(), st.tuples(st.sampled_from(KEYS), st.sampled_from(STAMPED))),
        min_size=1,
        max_size=6,
    ),
    options=st.sampled_from([PLAIN, DIFF, FULL]),
)
def test_both_ways_of_decoding_give_the_same_rows_or_the_same_error(
    records: list[tuple[bytes, bytes | None]], options: FeedOptions
) -> None:
    reader, versions = reading(options)
    chunk = chunk_of(versions, *records)
    assert shown(reader.read, chunk) == shown(reader.read_alone, chunk)


@pytest.mark.parametrize("value", STAMPED, ids=lambda value: repr(value)[:60])
def test_each_hostile_value_among_good_ones_is_told_alike(value: bytes) -> None:
    for options in (PLAIN, DIFF):
        reader, versions = reading(options)
        before = None if options is PLAIN else "null"
        good = row(2, before=before)
        chunk = chunk_of(versions, good, (b"[7]", value), good)
        assert shown(reader.read, chunk) == shown(reader.read_alone, chunk)


def test_usual_rows_are_decoded_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, versions = reading(DIFF)
    chunk = chunk_of(
        versions, row(1, before="null"), row(2, "null", '{"id": 2, "balance": 1.5, "note": "b"}')
    )
    monkeypatch.setattr(FrameRowReader, "_row", None)
    rows = reader.read(chunk)
    assert rows.after == [(1, 2), [2, None], ["a", None]] or rows.after == [[1, 2], [2, None], ["a", None]]
    assert (rows.deleted, rows.is_new) == ([False, True], [True, False])
    assert [column[1] for column in rows.before] == [2, Decimal("1.5"), "b"]


def test_a_row_of_an_older_version_has_null_in_the_columns_that_it_lacks() -> None:
    reader, versions = reading(PLAIN)
    rows = reader.read(chunk_of(versions, row(1, '{"id": 1}'), row(2)))
    assert [list(column) for column in rows.after] == [[1, 2], [None, 2], [None, "a"]]


def test_rows_that_are_no_deletions() -> None:
    reader, versions = reading(DIFF)
    rows = reader.read(
        chunk_of(versions, row(1, "null", "null"), row(2, before="null"), row(3, "null", "null"))
    )
    kept = rows.without_deletions()
    assert (kept.size, kept.walls.tolist(), kept.deleted, kept.is_new) == (1, [5], [False], [True])
    assert [list(column) for column in kept.after] == [[2], [2], ["a"]]
    assert kept.without_deletions() is kept


def test_a_column_that_came_later_is_named_with_what_to_do() -> None:
    reader, versions = reading(PLAIN)
    with pytest.raises(InputError, match=r"has a new column: age\. Start the query again"):
        reader.read(chunk_of(versions, row(1), row(7, '{"id": 7, "balance": 1, "note": "a", "age": 3}')))


def test_a_column_that_went_before_all_known_versions_of_the_table_is_left_out() -> None:
    with_age = '{"id": 1, "balance": 1, "note": "a", "age": 3}'
    for known_from in (Timestamp(5, 1), Timestamp(6)):
        reader, versions = reading(DIFF, replace(TABLE, known_from=known_from))
        rows = reader.read(chunk_of(versions, row(1, with_age, with_age), row(2, "null", with_age)))
        assert [list(column) for column in rows.after] == [[1, 2], [1, None], ["a", None]]
        assert [list(column) for column in rows.before] == [[1, 1], [1, 1], ["a", "a"]]
    reader, versions = reading(DIFF, replace(TABLE, known_from=Timestamp(5)))
    rows = reader.read(chunk_of(versions, row(1, before=with_age)))
    assert [list(column) for column in rows.before] == [[1], [1], ["a"]], "the row after it lacks the column"
    for last in (row(1, with_age, "null"), row(2, "null", with_age)):
        with pytest.raises(InputError, match="has a new column: age"):
            reader.read(chunk_of(versions, row(1, before="null"), last))


def test_a_key_with_a_member_that_stands_there_twice_is_unreadable() -> None:
    reader, versions = reading(PLAIN)
    with pytest.raises(UnreadableRow, match="offset 1 of accounts"):
        reader.read(chunk_of(versions, row(1), (b'[{"a": 1, "a": 2}]', row(7, "null")[1])))


@pytest.mark.parametrize("key", [b"[7, 8]", b"[[7], 8]"])
def test_a_key_of_other_columns_is_named(key: bytes) -> None:
    reader, versions = reading(PLAIN)
    with pytest.raises(InputError, match="offset 1 of accounts has a key of 2 values"):
        reader.read(chunk_of(versions, row(1), (key, row(7, "null")[1])))
