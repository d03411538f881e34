"""Refused versions of tables: what is known of them, taken in any order, and what a restart keeps of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hand_log import HandTable, at, update_of
from tidegate.errors import EncodingError
from tidegate.hlc import MAX, Timestamp
from tidegate.processor.batch import StateTable
from tidegate.processor.feeds.refused_versions import REFUSED_PREFIX, RefusedVersion, RefusedVersions
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.row_shape import is_shaped
from tidegate.processor.state.stored_frame import pack
from tidegate.raftlog.entry import DescriptorUpdate, RaftIndex, RangeId
from tidegate.ranges.version import Version
from tidegate.rows import Row

_TABLES: Final = (104, 105)
_TIMES: Final = [Timestamp(wall, 1) for wall in range(5)]
#: The most refusals of a table that are kept one by one.
_KEPT: Final = 8

#: Since when each refused version is valid, by table and version: the plain reference.
_Refused: TypeAlias = dict[tuple[int, int], Timestamp]
_Rows: TypeAlias = dict[bytes, bytes]


def _fold(rows: _Rows, refused: RefusedVersions) -> None:
    for table, key, value in refused.freeze():
        assert table is StateTable.DESCRIPTORS
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def _reopened(rows: _Rows) -> RefusedVersions:
    refused = RefusedVersions()
    for key, value in rows.items():
        refused.restore(key, value)
    return refused


def _told(refused: RefusedVersions, versions: Iterable[int]) -> list[object]:
    """All answers about these versions."""
    return [
        (
            table,
            refused.has_table(table),
            refused.first(table),
            [
                (
                    refused.after(table, version),
                    [refused.has(table, version, time) for time in (*_TIMES, MAX)],
                )
                for version in versions
            ],
        )
        for table in _TABLES
    ]


def _require_as_told(refused: RefusedVersions, told: _Refused) -> None:
    assert len(refused) == len(told)
    for table in _TABLES:
        of_table = {version: since for (of, version), since in told.items() if of == table}
        assert refused.has_table(table) == bool(of_table)
        assert refused.first(table) == min(of_table.values(), default=None)
        for version in range(_KEPT + 1):
            since = of_table.get(version)
            assert refused.has(table, version) == (since is not None)
            for time in _TIMES:
                assert refused.has(table, version, time) == (since is not None and since <= time)
            later = [(since, number) for number, since in of_table.items() if number > version]
            first = [RefusedVersion(number, number, since) for since, number in sorted(later)[:1]]
            assert refused.after(table, version) == (first[0] if first else None)


_VERSIONS = st.tuples(st.sampled_from(_TABLES), st.integers(1, _KEPT))
_EVENTS = st.one_of(
    st.tuples(st.just("refused"), _VERSIONS, st.sampled_from(_TIMES)),
    st.tuples(st.just("known"), _VERSIONS, st.none()),
    st.tuples(st.just("unneeded"), _VERSIONS, st.none()),
)


@given(st.lists(st.tuples(_EVENTS, st.booleans()), max_size=25))
def test_each_refused_version_is_known_from_its_lowest_time_on_until_it_is_taken_or_not_needed(
    events: list[tuple[tuple[str, tuple[int, int], Timestamp | None], bool]],
) -> None:
    """The bool says that a step ends after the event."""
    refused, told, rows = RefusedVersions(), _Refused(), _Rows()
    for (what, (table, version), time), ends_step in events:
        if time is not None:
            refused.add(table, version, time)
            told[table, version] = min(time, told.get((table, version), MAX))
        elif what == "known":
            refused.note_known(table, version)
            told.pop((table, version), None)
        else:
            refused.forget(table, version.__ge__)
            told = {at: since for at, since in told.items() if at[0] != table or at[1] > version}
        _require_as_told(refused, told)
        if ends_step:
            _fold(rows, refused)
            assert len(rows) == len(told)
            _require_as_told(_reopened(rows), told)


@given(st.lists(st.tuples(st.integers(1, 14), st.sampled_from(_TIMES), st.booleans()), max_size=40))
def test_many_refused_versions_are_bounded_and_none_of_them_counts_as_valid_later_than_it_is(
    events: list[tuple[int, Timestamp, bool]],
) -> None:
    refused, rows, told = RefusedVersions(), _Rows(), dict[int, Timestamp]()
    for version, time, is_refused in events:
        if is_refused:
            refused.add(104, version, time)
            told[version] = min(time, told.get(version, MAX))
        else:
            refused.note_known(104, version)
            told.pop(version, None)
        assert len(refused) <= _KEPT
        for each, since in told.items():
            assert refused.has(104, each, since)
        for each in range(15):
            later = [since for version, since in told.items() if version > each]
            found = refused.after(104, each)
            assert not later or (found is not None and found.since <= min(later))
        _fold(rows, refused)
        assert len(rows) == len(refused)
        assert _told(_reopened(rows), range(16)) == _told(refused, range(16))


def _of_many(*more: tuple[int, int]) -> RefusedVersions:
    """Versions 2, 4, ... 14 are kept one by one; the ``more`` ones, each valid from a time, are one."""
    refused = RefusedVersions()
    for version in range(2, 16, 2):
        refused.add(104, version, Timestamp(version))
    for version, wall in more:
        refused.add(104, version, Timestamp(wall))
    return refused


@pytest.mark.parametrize(
    ("known", "left"),
    [
        (20, RefusedVersion(21, 24, Timestamp(3))),
        (22, RefusedVersion(20, 24, Timestamp(3))),
        (24, RefusedVersion(20, 23, Timestamp(3))),
        (19, RefusedVersion(20, 24, Timestamp(3))),
        (25, RefusedVersion(20, 24, Timestamp(3))),
    ],
    ids=["lowest", "between", "highest", "below", "above"],
)
def test_the_newest_refusals_of_many_count_as_one_that_a_known_version_makes_smaller_at_its_ends(
    known: int, left: RefusedVersion
) -> None:
    refused = _of_many((20, 9), (22, 3), (24, 5))
    assert refused.after(104, 14) == RefusedVersion(20, 24, Timestamp(3))
    refused.note_known(104, known)
    assert refused.after(104, 14) == left


def test_nothing_is_left_of_several_refusals_when_all_of_them_are_known() -> None:
    refused = _of_many((20, 9), (21, 3))
    for version in (20, 21):
        refused.note_known(104, version)
    assert refused.after(104, 14) is None
    assert len(refused) == 7


def test_refusals_that_count_as_one_are_forgotten_by_their_highest_number() -> None:
    refused, asked = _of_many((20, 9), (22, 3)), list[int]()

    def is_unneeded(highest: int) -> bool:
        asked.append(highest)
        return highest == 22

    refused.forget(104, is_unneeded)
    assert asked == [2, 4, 6, 8, 10, 12, 14, 22]
    assert (refused.after(104, 14), len(refused)) == (None, 7)
    refused.forget(105, is_unneeded)
    assert len(asked) == 8, "the other table has none"


def test_a_refusal_says_whether_it_is_of_one_version() -> None:
    assert str(RefusedVersion(3, 3, Timestamp(1))) == "version 3"
    assert str(RefusedVersion(3, 5, Timestamp(1))) == "one of the versions 3 to 5"


def test_only_what_has_changed_is_stored() -> None:
    refused = RefusedVersions()
    refused.add(104, 3, Timestamp(7))
    assert len(list(refused.freeze())) == 1
    refused.add(104, 3, Timestamp(7))
    refused.add(104, 3, Timestamp(8))
    refused.note_known(104, 4)
    refused.forget(104, lambda _: False)
    assert list(refused.freeze()) == []
    many = _of_many((20, 9), (22, 3))
    assert len(list(many.freeze())) > 0
    many.note_known(104, 21)
    assert list(many.freeze()) == []


def test_a_copy_of_a_refused_version_from_an_earlier_time_counts_from_that_time_on() -> None:
    refused = RefusedVersions()
    for time in (7, 5, 6):
        refused.add(104, 3, Timestamp(time))
    assert (refused.after(104, 2), len(refused)) == (RefusedVersion(3, 3, Timestamp(5)), 1)
    assert refused.first(104) == Timestamp(5)


def test_a_restart_keeps_the_largest_numbers() -> None:
    refused, rows, largest = RefusedVersions(), _Rows(), (1 << 63) - 1
    refused.add(largest, largest, Timestamp(7))
    _fold(rows, refused)
    assert _reopened(rows).after(largest, 1) == RefusedVersion(largest, largest, Timestamp(7))


def _key(table_id: int, highest: int) -> bytes:
    return REFUSED_PREFIX + table_id.to_bytes(8, "big") + highest.to_bytes(8, "big")


def test_a_stored_refusal_is_a_format() -> None:
    refused = _of_many((20, 9), (21, 3))
    rows = {key: value for _, key, value in refused.freeze() if value is not None}
    assert rows[_key(104, 21)] == pack(pb.RefusedVersions(wall=3, lowest=20))
    assert rows[_key(104, 2)] == pack(pb.RefusedVersions(wall=2, lowest=2))
    assert len(rows) == 8


@pytest.mark.parametrize(
    ("stored", "lowest"),
    [
        (pb.RefusedVersions(wall=5, logical=1), 21),
        (pb.RefusedVersions(wall=5, logical=1, lowest=20), 20),
        (pb.RefusedVersions(wall=5, logical=1, lowest=22), 21),
    ],
    ids=["by an earlier release, which knew single ones only", "several", "damaged"],
)
def test_the_lowest_of_stored_refusals_is_never_above_the_highest(
    stored: pb.RefusedVersions, lowest: int
) -> None:
    refused = _reopened({_key(104, 21): pack(stored), _key(104, 9): pack(pb.RefusedVersions(wall=6))})
    assert refused.after(104, 9) == RefusedVersion(lowest, 21, Timestamp(5, 1))
    assert refused.after(104, 8) == RefusedVersion(lowest, 21, Timestamp(5, 1))
    refused.note_known(104, 21)
    assert refused.has(104, 9)


# ---- among the versions of a partition ----

_TABLE: Final = HandTable.of(104, "t", "id INT, v STRING")
_DAMAGED: Final = b"\1\xff"


def _update(number: int) -> DescriptorUpdate:
    """Version ``number``, valid from second ``number`` on."""
    return update_of(replace(_TABLE.descriptor, version=number, modified=at(number)))


def _learn(rows: PartitionRows, *numbers: int) -> None:
    for number in numbers:
        rows.learn(_update(number))


def _refuse_damaged(rows: PartitionRows, *numbers: int) -> None:
    for number in numbers:
        with pytest.raises(EncodingError):
            rows.learn(_update(number)._replace(descriptor=_DAMAGED))


def _read(rows: PartitionRows, seconds: float) -> Row | Exception | None:
    op = _TABLE.put(seconds, 1, "a")
    version = Version(op.key, op.timestamp, op.value or b"", None, False, RangeId(7), RaftIndex(11), 0)
    (row,) = rows.decode([version], {104})
    return row


def _restored(rows: PartitionRows) -> PartitionRows:
    changes = [*rows.freeze()]
    assert all(is_shaped(*change) for change in changes)
    state = {key: value for _, key, value in changes if value is not None}
    assert len(state) == len(rows)
    again = PartitionRows()
    again.restore(state.items())
    return again


def test_a_version_that_was_refused_before_an_older_one_was_known_is_remembered() -> None:
    rows = PartitionRows()
    _refuse_damaged(rows, 3)
    _learn(rows, 2, 4)
    for each in (rows, _restored(rows)):
        assert not each.unfit(104)
        assert "version 3 of table t (104)" in str(_read(each, 3.5))
        assert [isinstance(_read(each, seconds), Row) for seconds in (2.5, 4.5)] == [True, True]


def test_of_refused_versions_that_count_as_one_the_others_stay_refused_when_one_is_taken() -> None:
    rows = PartitionRows()
    _learn(rows, 1)
    _refuse_damaged(rows, *range(2, 9))
    _learn(rows, 9)
    _refuse_damaged(rows, 10, 11)
    _learn(rows, 11)
    for each in (rows, _restored(rows)):
        assert "version 10 of table t (104)" in str(_read(each, 10.5))
        assert isinstance(_read(each, 11.5), Row)
        _learn(each, 10)
        assert isinstance(_read(each, 10.5), Row)


def test_a_copy_of_a_refused_version_does_nothing_once_a_later_one_is_known() -> None:
    rows = PartitionRows()
    _learn(rows, 1)
    _refuse_damaged(rows, 2)
    with pytest.raises(EncodingError):
        rows.learn(_update(2)._replace(descriptor=_DAMAGED))
    _learn(rows, 3)
    rows.learn(_update(2)._replace(descriptor=_DAMAGED))
    assert not rows.unfit(104)
    assert "version 2 of table t (104)" in str(_read(rows, 2.5))


def test_a_version_that_is_refused_behind_a_later_one_makes_the_table_not_unfit() -> None:
    rows = PartitionRows()
    _learn(rows, 1, 3)
    _refuse_damaged(rows, 2)
    assert not rows.unfit(104)
    assert [isinstance(_read(rows, seconds), Row) for seconds in (1.5, 2.5, 3.5)] == [True, False, True]
