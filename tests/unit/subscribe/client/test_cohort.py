"""Several tables at one cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ProtocolError
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.cohort import Cohort, JointRelease
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import Update


def at(time: int) -> Frontier:
    return Frontier(Timestamp(time))


def test_the_joint_snapshot_is_beyond_the_highest_as_of() -> None:
    cohort = Cohort(["a", "b"])
    assert cohort.progress("a", at(10)) is None
    releases = [cohort.progress("b", at(12)), cohort.progress("a", at(12)), cohort.progress("a", at(20))]
    releases.append(cohort.progress("b", at(13)))
    found = [each for each in releases if each is not None]
    assert [(each.frontier.wall, each.is_snapshot, each.resumable) for each in found] == [
        (10, False, False),
        (12, False, False),
        (13, True, True),
    ]


def test_a_resumed_cohort_can_be_resumed_at_once() -> None:
    cohort = Cohort(["a"], resumed=True)
    release = cohort.progress("a", at(5))
    assert release is not None
    assert (release.is_snapshot, release.resumable) == (False, True)


steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 2)), max_size=40)


@given(steps)
def test_members_are_released_up_to_one_cut_without_loss_or_repeat(steps: list[tuple[str, int, int]]) -> None:
    cohort = Cohort("abc")
    fronts = dict.fromkeys("abc", 0)
    given_updates: dict[str, list[Update]] = {name: [] for name in "abc"}
    released: dict[str, list[Update]] = {name: [] for name in "abc"}
    last: JointRelease | None = None
    for name, ahead, rise in steps:
        update = Update(Timestamp(fronts[name] + ahead), 1, (len(given_updates[name]),))
        cohort.data(name, update)
        given_updates[name].append(update)
        fronts[name] += rise
        release = cohort.progress(name, at(fronts[name]))
        if release is None:
            continue
        assert last is None or release.frontier > last.frontier
        last = release
        for member, updates in release.updates.items():
            released[member] += updates
            wanted = [each for each in given_updates[member] if each.time < release.frontier]
            assert sorted(released[member]) == sorted(wanted)


def test_what_breaks_the_protocol() -> None:
    with pytest.raises(ValueError, match="without members"):
        Cohort([])
    for member, time in (("a", 4), ("b", 6)):
        cohort = Cohort(["a"])
        cohort.progress("a", at(5))
        with pytest.raises(ProtocolError):
            cohort.progress(member, at(time))
        cohort = Cohort(["a"])
        cohort.progress("a", at(5))
        with pytest.raises(ProtocolError) as first:
            cohort.data(member, Update(at(time), 1, ()))
        with pytest.raises(ProtocolError) as again:
            cohort.progress("a", at(9))
        assert first.value is again.value
