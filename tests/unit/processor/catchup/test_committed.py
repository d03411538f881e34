"""Versions on their way to the feeds: each feed is given each version once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from tests.hand_log import at
from tests.unit.processor.late_feed import kv
from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor.catchup.committed import CommittedVersions, Delivery, scanned_version
from tidegate.processor.feeds.written_versions import WrittenRows, WrittenVersions
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version

_A, _B = FeedId("a"), FeedId("b")


def _version(number: int) -> Version:
    return Version(b"%d" % number, at(number), b"", None, False, RangeId(1), RaftIndex(number), 0)


_ONE, _TWO, _THREE, _FOUR = map(_version, range(1, 5))
_ROWS: Final = cast(WrittenRows, object())


class _Written(WrittenVersions):
    """Versions that a kernel has written, without the records that Python would read them from."""

    def __init__(self, before: list[Version], own: list[Version]) -> None:
        super().__init__((), (), cast("object", None), at(0), 0, before)  # type: ignore[arg-type]
        self._own = own

    def versions(self) -> list[Version]:
        return self._own


def _given(committed: CommittedVersions, feed: FeedId) -> Sequence[Delivery]:
    return [Delivery([*each.versions], *each[1:]) for each in committed.parted[feed]]


def test_a_feed_that_parts_is_given_what_was_shared_so_far_and_nothing_that_is_shared_later() -> None:
    committed = CommittedVersions()
    committed.shared.append(_ONE)
    committed.part(_A)
    committed.shared.append(_TWO)
    committed.part(_A)
    committed.part(_B)
    assert _given(committed, _A) == [Delivery([_ONE], None)]
    assert _given(committed, _B) == [Delivery([_ONE, _TWO], None)]


def test_versions_of_one_kind_are_one_delivery_and_each_kind_has_its_own() -> None:
    committed = CommittedVersions()
    committed.part(_A)
    committed.give(_A, [_ONE])
    committed.give(_A, [], held=True)
    committed.give(_A, [_TWO])
    committed.give(_A, [_THREE], at(9))
    committed.give(_A, [_FOUR], at(9))
    committed.give(_A, [_ONE], held=True)
    committed.give(_A, [_TWO], held=True)
    committed.give(_A, [_THREE])
    assert _given(committed, _A) == [
        Delivery([_ONE, _TWO], None, held=False),
        Delivery([_THREE, _FOUR], at(9), held=False),
        Delivery([_ONE, _TWO], None, held=True),
        Delivery([_THREE], None, held=False),
    ]


def test_what_a_feed_is_given_does_not_change_the_list_that_it_came_from() -> None:
    committed, own = CommittedVersions(), [_ONE]
    committed.shared = own
    committed.part(_A)
    committed.give(_A, [_TWO])
    scanned = [_THREE]
    committed.give(_A, scanned, at(9))
    committed.give(_A, [_FOUR], at(9))
    assert (own, scanned) == ([_ONE], [_THREE])


def test_written_versions_come_before_the_shared_ones_and_only_once() -> None:
    committed = CommittedVersions()
    committed.written = [_Written([_ONE], [_TWO]), _Written([], [_THREE])]
    committed.shared = [_FOUR]
    committed.part(_A)
    committed.part(_B)
    assert committed.written == []
    assert committed.shared == [_ONE, _TWO, _THREE, _FOUR]
    assert _given(committed, _A) == _given(committed, _B) == [Delivery(committed.shared, None)]


def test_nothing_is_taken_out_twice_and_only_feeds_with_gaps_stay_parted() -> None:
    committed = CommittedVersions()
    committed.shared, committed.rows = [_ONE], [_ROWS]
    for feed in (_A, _B):
        committed.part(feed)
    taken = committed.take_out([_B])
    assert (taken.shared, taken.rows, sorted(taken.parted)) == ([_ONE], [_ROWS], [_A, _B])
    again = committed.take_out([])
    assert (again.shared, again.parted, again.rows) == ([], {_B: []}, [])
    assert committed.parted == {}


def test_a_version_that_a_scan_found_names_its_range_and_no_op() -> None:
    row = kv(2, 1, "found")._replace(prev_value=b"before", omit_in_rangefeeds=True)
    found = scanned_version(RangeId(7), row)
    assert found == Version(row.key, at(2), row.value, b"before", True, RangeId(7), RaftIndex(0), 0)
