"""Which history mutations are accounted for: copies are not new, and keys that left are not known."""

from __future__ import annotations

import pytest

from tests.hand_log import at
from tidegate.hlc import ZERO
from tidegate.raftlog.entry import Offset, RaftIndex
from tidegate.ranges.accounted import AS_APPLIED, NEVER_NOTED, Accounted
from tidegate.spans import Span


def _accounted(
    raft_index: int = 0,
    noted: int = 0,
    noted_at: int = NEVER_NOTED,
    passed: int = 0,
    span: Span | None = None,
) -> Accounted:
    return Accounted(RaftIndex(raft_index), RaftIndex(noted), span, ZERO, Offset(noted_at), RaftIndex(passed))


@pytest.mark.parametrize(
    ("accounted", "more"),
    [
        (AS_APPLIED, False),
        (_accounted(raft_index=10, noted=10, passed=10), False),
        (_accounted(raft_index=11), True),
        (_accounted(noted=11), True),
        (_accounted(passed=11), True),
        (_accounted(noted_at=0), True),
        (_accounted(span=Span(b"a", b"b")), True),
        (AS_APPLIED._replace(time=at(1)), True),
    ],
)
def test_what_says_no_more_than_the_applied_index_needs_not_be_stored(
    accounted: Accounted, more: bool
) -> None:
    assert accounted.says_more(RaftIndex(10)) == more


@pytest.mark.parametrize(
    ("raft_index", "applied"), [(8, 3), (3, 8)], ids=["by a snapshot to 8", "applied to 8"]
)
@pytest.mark.parametrize(
    ("command", "offset", "known"),
    [
        (8, 101, True),
        (9, 101, False),
        (10, 101, True),
        (19, 101, True),
        (20, 101, True),
        (21, 101, False),
        (9, 100, True),
        (21, 100, True),
        (21, 99, True),
    ],
    ids=[
        "all up to it are accounted for",
        "the next one is new, whatever was noted",
        "below what was noted",
        "just below what was noted",
        "what was noted",
        "above what was noted",
        "the next one, in the record that was noted",
        "above, in the record that was noted",
        "above, in a record before it",
    ],
)
def test_a_command_is_known_if_it_is_a_copy_or_is_read_again(
    raft_index: int, applied: int, command: int, offset: int, known: bool
) -> None:
    """Up to index 8 all is accounted for; the command at index 20 and offset 100 was noted."""
    accounted = _accounted(raft_index=raft_index, noted=20, noted_at=100)
    assert accounted.knows(RaftIndex(command), Offset(offset), RaftIndex(applied)) == known


def test_if_nothing_was_noted_what_is_applied_is_known_and_what_is_not_is_new() -> None:
    known = [AS_APPLIED.knows(RaftIndex(index), Offset(101), RaftIndex(8)) for index in (7, 8, 9, 10)]
    assert known == [True, True, False, False]


def test_the_next_command_is_known_if_it_was_noted() -> None:
    accounted = _accounted(noted=9, noted_at=100)
    assert accounted.knows(RaftIndex(9), Offset(101), RaftIndex(8))
    assert not accounted.knows(RaftIndex(10), Offset(101), RaftIndex(8))


@pytest.mark.parametrize(("raft_index", "passed", "applied"), [(0, 14, 10), (0, 10, 14), (15, 10, 10)])
@pytest.mark.parametrize(
    ("snapshot", "noted"), [(13, None), (14, None), (15, 15), (19, 19), (20, 20), (21, 20), (90, 20)]
)
def test_behind_a_snapshot_no_higher_command_counts_as_noted_unless_it_may_be_a_copy(
    raft_index: int, passed: int, applied: int, snapshot: int, noted: int | None
) -> None:
    """Up to index 14 a Snapshot may be one from before the noted command, at index 20."""
    before = _accounted(raft_index=raft_index, noted=20, noted_at=100, passed=passed)
    after = before.behind(RaftIndex(snapshot), RaftIndex(applied))
    expected = (
        before if noted is None else before._replace(noted=RaftIndex(noted), passed=RaftIndex(snapshot))
    )
    assert after == expected


def test_a_snapshot_that_is_not_before_the_noted_command_is_passed_in_any_case() -> None:
    before = _accounted(raft_index=25, noted=20, noted_at=100, passed=25)
    for snapshot in (20, 21):
        after = before.behind(RaftIndex(snapshot), RaftIndex(25))
        assert (after.noted, after.passed) == (20, snapshot)


_KNOWN = _accounted(raft_index=5)


@pytest.mark.parametrize(
    ("span", "own", "had", "kept"),
    [
        (None, "am", [], None),
        (None, "am", ["am", "az"], None),
        (None, "am", ["ac"], "ac"),
        (None, "am", ["az", "ch", "bd"], "cd"),
        (None, "am", ["mz"], "mm"),
        (None, "am", ["ac", "ch"], "mm"),
        ("ch", "am", ["az"], "ch"),
        ("ch", "am", ["ae"], "ce"),
        ("ch", None, ["ae"], "ce"),
        (None, None, ["ae"], None),
    ],
)
def test_an_index_counts_only_for_keys_that_the_range_has_had_all_the_time(
    span: str | None, own: str | None, had: list[str], kept: str | None
) -> None:
    before = _KNOWN._replace(span=_span(span))
    spans = [Span(each[:1].encode(), each[1:].encode()) for each in had]
    assert before.kept_in(spans, _span(own)) == _KNOWN._replace(span=_span(kept))


@pytest.mark.parametrize(
    ("span", "own", "left"), [(None, "am", "mm"), ("ch", "am", "hh"), ("ch", None, "hh"), (None, None, None)]
)
def test_an_index_counts_for_no_key_if_nobody_knows_which_have_stayed(
    span: str | None, own: str | None, left: str | None
) -> None:
    after = _KNOWN._replace(span=_span(span)).of_no_key(_span(own))
    assert after == _KNOWN._replace(span=_span(left))


def _span(text: str | None) -> Span | None:
    """The span between two letters."""
    return None if text is None else Span(text[:1].encode(), text[1:].encode())
