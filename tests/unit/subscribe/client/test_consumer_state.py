"""The consumer's state machine: what a row may be, what it releases, and what ends it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tidegate.errors import ProgressMissing, ProtocolError
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.consumer_state import ConsumerState, ReleasedBatch

DIFFS = ("mz_timestamp", "mz_progressed", "mz_diff", "k", "v")
UPSERT = ("mz_timestamp", "mz_progressed", "mz_state", "k", "v")


def run(
    rows: list[list[Any]], header: tuple[str, ...] = DIFFS, *, resumed: bool = False
) -> list[ReleasedBatch]:
    """The batches of some rows."""
    state = ConsumerState(header, resumed=resumed)
    return [batch for row in rows if (batch := state.push(row)) is not None]


def progress(time: Any, flag: Any = True) -> list[Any]:
    return [time, flag, None, None, None]


def test_the_first_batch_beyond_the_opening_is_the_snapshot() -> None:
    batches = run([progress(10), [10, False, 1, "a", 1], progress(11), progress(12)])
    assert [(batch.frontier, batch.is_snapshot) for batch in batches] == [
        (Timestamp(0, 11), True),
        (Timestamp(0, 12), False),
    ]
    assert batches[0].rows[0].values == ("a", 1)


def test_a_resumed_stream_has_no_snapshot() -> None:
    assert [batch.is_snapshot for batch in run([progress(10), progress(11)], resumed=True)] == [False]


def test_rows_come_in_the_order_of_timestamps_and_are_not_netted_over_them() -> None:
    rows = [progress(10), [13, False, 1, "a", 1], [12, False, -1, "a", 1], progress(20)]
    assert [(row.time.logical, row.diff) for row in run(rows)[0].rows] == [(12, -1), (13, 1)]


def test_the_token_is_none_before_the_snapshot_and_stays_on_an_error() -> None:
    state = ConsumerState(DIFFS)
    frontiers = []
    for row in (progress(10), progress(11)):
        state.push(row)
        frontiers.append(state.frontier)
    assert frontiers == [None, Timestamp(0, 11)]
    state.push([12, False, 1, "a", 1])
    state.fail()
    assert state.frontier == Timestamp(0, 11)
    with pytest.raises(ProtocolError, match="after the end"):
        state.push(progress(13))


def test_a_clean_end_closes_what_is_held_and_an_empty_snapshot() -> None:
    state = ConsumerState(DIFFS)
    assert state.complete() is None
    state = ConsumerState(DIFFS)
    state.push(progress(10))
    batch = state.complete()
    assert batch is not None
    assert (batch.frontier, batch.rows, batch.is_snapshot) == (None, (), True)


@pytest.mark.parametrize(
    "time", [7, "7", Decimal(7), Decimal("7E0"), "0.0000000007", Decimal("0.0000000007"), Timestamp(0, 7)]
)
@pytest.mark.parametrize("flag", [True, "t", "true"])
def test_timestamps_and_truth_values_come_in_several_forms(time: Any, flag: Any) -> None:
    assert run([progress(5), progress(time, flag)])[0].frontier == Timestamp(0, 7)


@pytest.mark.parametrize(
    "time", [1_700_000_000_000, "1700000000000", Decimal(1_700_000_000_000), Decimal("1.7E12")]
)
def test_milliseconds_are_plain_numbers(time: Any) -> None:
    assert run([progress(5), progress(time)])[0].frontier == Timestamp(0, 1_700_000_000_000)


@pytest.mark.parametrize(
    "time", [2**64, "18446744073709551616", "9" * 5000, Decimal("1E+9999"), Decimal("NaN"), Decimal("0.5")]
)
def test_no_plain_number_has_more_than_64_bits(time: Any) -> None:
    with pytest.raises(ProtocolError, match="mz_timestamp is no timestamp"):
        run([progress(time)])


def test_columns_of_subscribe_may_stand_anywhere_if_no_name_stands_twice() -> None:
    header = ("k", "mz_timestamp", "v", "mz_progressed", "mz_diff")
    rows: list[list[Any]] = [
        [None, 1, None, True, None],
        ["a", 1, 7, False, 2],
        [None, 2, None, True, None],
    ]
    assert [(row.diff, row.values) for row in run(rows, header)[0].rows] == [(2, ("a", 7))]
    with pytest.raises(ProgressMissing):
        ConsumerState((*header, "mz_diff"))


def test_a_tables_column_is_not_taken_for_progress() -> None:
    with pytest.raises(ProgressMissing):
        ConsumerState(("mz_timestamp", "mz_diff", "id", "mz_progressed"))


def test_columns_are_known_by_their_names() -> None:
    header = ("mz_progressed", "mz_diff", "mz_timestamp", "mz_diff")
    batches = run([[True, None, 1, None], [False, "-2", 1, "x"], [True, None, 2, None]], header)
    assert (batches[0].rows[0].diff, batches[0].rows[0].values) == (-2, ("x",))


def test_nothing_is_released_after_an_error() -> None:
    state = ConsumerState(DIFFS)
    for row in (progress(10), [10, False, 1, "a", 1]):
        state.push(row)
    with pytest.raises(ProtocolError) as first:
        state.push([9, False, 1, "b", 1])
    with pytest.raises(ProtocolError) as again:
        state.push(progress(11))
    with pytest.raises(ProtocolError):
        state.complete()
    assert first.value is again.value


@pytest.mark.parametrize(
    ("rows", "header", "error"),
    [
        ([[10, False, 1, "a", 1]], DIFFS, ProgressMissing),
        ([], ("mz_timestamp", "mz_diff", "k"), ProgressMissing),
        ([], ("mz_timestamp", "mz_progressed", "k"), ProtocolError),
        ([], ("k", "v"), ProgressMissing),
        ([progress(10), progress(9)], DIFFS, ProtocolError),
        ([progress(10), [9, False, 1, "a", 1]], DIFFS, ProtocolError),
        ([progress(10), [10, False, "updated", "a", 1]], UPSERT, ProtocolError),
        ([progress(10), [10, False, None, "a", 1]], UPSERT, ProtocolError),
        ([progress(10), [10, False, 0, "a", 1]], DIFFS, ProtocolError),
        ([progress(10), [10, False, True, "a", 1]], DIFFS, ProtocolError),
        ([progress(10), [10, None, 1, "a", 1]], DIFFS, ProtocolError),
        ([progress(10), [None, False, 1, "a", 1]], DIFFS, ProtocolError),
        ([progress(10), [-1, False, 1, "a", 1]], DIFFS, ProtocolError),
        ([progress(10), [10, False, 1, "a"]], DIFFS, ProtocolError),
    ],
)
def test_what_breaks_the_protocol(
    rows: list[list[Any]], header: tuple[str, ...], error: type[ProtocolError]
) -> None:
    with pytest.raises(error) as caught:
        run(rows, header)
    assert caught.value.sqlstate == "08P01"
