"""The worker that had this one's place in the group before is named until the group has forgotten it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.client import ConnectionGroup
from aiokafka.errors import NodeNotReadyError
from aiokafka.protocol.group import LeaveGroupResponse_v0

from tidegate.errors import TopologyError
from tidegate.worker.kafka.membership import Membership, take_out

_DONE, _NOT_COORDINATOR, _UNKNOWN_MEMBER = 0, 16, 25


class Names:
    """A directory in memory; ``full`` refuses to keep anything more."""

    def __init__(self, *kept: str) -> None:
        self.kept = kept
        self.full = False

    def members(self) -> tuple[str, ...]:
        return self.kept

    def note_members(self, names: tuple[str, ...]) -> None:
        if self.full:
            raise TopologyError("No room")
        self.kept = names


class Coordinator:
    """Knows its group, and where the group's coordinator is."""

    group_id = "app"
    coordinator_id = 7


class Client:
    """Answers requests with these codes, one after the other; ``None`` for a broker that is away."""

    def __init__(self, *answers: int | None) -> None:
        self._answers = list(answers)
        self.sent: list[tuple[int, str, str, ConnectionGroup]] = []

    async def send(self, node: int, request: Any, *, group: ConnectionGroup) -> LeaveGroupResponse_v0:
        self.sent.append((node, request._group, request._member_id, group))
        answer = self._answers.pop(0)
        if answer is None:
            raise NodeNotReadyError("away")
        return LeaveGroupResponse_v0(answer)


def test_a_member_is_known_to_whoever_comes_after_it() -> None:
    names = Names()
    Membership(names).note("first")
    after = Membership(names)
    assert after.dead == ("first",)


def test_the_dead_are_named_until_the_group_has_forgotten_them() -> None:
    """Two processes may die in a row, the second before the group was told of the first."""
    names = Names("first")
    Membership(names).note("second")
    third = Membership(names)
    assert third.dead == ("first", "second")
    third.note("third")
    third.forget_dead()
    assert names.members() == ("third",)
    assert third.settled


def test_a_worker_with_a_name_of_its_own_notes_none_and_still_takes_the_dead_out() -> None:
    names = Names("first")
    fixed = Membership(names, fixed=True)
    fixed.note("ours-1")
    assert names.kept == ("first",)
    assert not fixed.settled
    fixed.forget_dead()
    assert names.members() == ()
    assert fixed.settled


def test_a_member_that_the_group_let_in_anew_has_its_new_name_only() -> None:
    names = Names()
    membership = Membership(names)
    membership.note("before the pause")
    membership.note("after it")
    assert names.kept == ("after it",)


def test_a_directory_without_room_costs_the_next_start_time_and_nothing_else() -> None:
    names = Names("first")
    membership = Membership(names)
    names.full = True
    membership.note("second")
    assert membership.dead == ("first",)


def test_the_group_is_told_beside_the_connection_that_waits_for_it() -> None:
    client = Client(_DONE)
    assert asyncio.run(take_out(Coordinator(), client, ("first",)))
    assert client.sent == [(7, "app", "first", ConnectionGroup.DEFAULT)]


def test_a_member_whose_session_has_expired_is_out_as_well() -> None:
    assert asyncio.run(take_out(Coordinator(), Client(_UNKNOWN_MEMBER, _DONE), ("first", "second")))


@pytest.mark.parametrize("answer", [_NOT_COORDINATOR, None])
def test_a_group_that_cannot_be_told_now_is_told_again(answer: int | None) -> None:
    assert not asyncio.run(take_out(Coordinator(), Client(answer), ("first",)))
