"""Joint tokens: one text for all members, refused by any other set of them."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import TokenRefused
from tidegate.hlc import Timestamp
from tidegate.subscribe.client.joint_token import JointToken, read_joint_token
from tidegate.subscribe.client.resume_token import ResumeToken, parse_token, token_text
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.updates.frontier import Frontier

PRINTS = {"a": "fa", "b": "fb"}


def token_of(name: str, wall: int = 7) -> ResumeToken:
    """A member's token."""
    return ResumeToken(Frontier(Timestamp(wall, 1)), f"f{name}", {FeedPartition(name, 0): 12})


JOINT = JointToken({"a": token_of("a"), "b": token_of("b")})


def test_its_text_is_a_stored_form() -> None:
    assert str(JointToken({"a": token_of("a")})) == (
        "eyJmb3JtYXQiOjEsIm1lbWJlcnMiOnsiYSI6ImV5Sm1hVzVuWlhKd2NtbHVkQ0k2SW1aaElpd2labTl5YldGMElqb3hMQ0pt"
        "Y205dWRHbGxjaUk2SWpjdU1EQXdNREF3TURBd01TSXNJbTltWm5ObGRITWlPbHRiSW1FaUxEQXNNVEpkWFgwIn19"
    )


def test_it_is_read_as_it_was_written() -> None:
    assert read_joint_token(str(JOINT), PRINTS) == JOINT
    assert JOINT.frontier == Timestamp(7, 1)


@pytest.mark.parametrize(
    "prints", [{"a": "fa"}, {**PRINTS, "c": "fc"}, {"a": "fa", "b": "other"}, {"a": "fb", "b": "fa"}]
)
def test_other_members_refuse_it(prints: dict[str, str]) -> None:
    with pytest.raises(TokenRefused):
        read_joint_token(str(JOINT), prints)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"format": 1},
        {"format": 1, "members": []},
        {"format": 1, "members": {"a": 7, "b": 8}},
        {"format": 1, "members": {"a": "!", "b": "?"}},
        {"format": 2, "members": {}},
        {"format": 1, "members": {"a": str(token_of("a")), "b": str(token_of("b", wall=8))}},
    ],
)
def test_what_is_no_joint_token_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        read_joint_token(token_text(members), PRINTS)


def test_a_token_of_one_table_and_a_joint_one_are_not_taken_for_each_other() -> None:
    with pytest.raises(TokenRefused):
        read_joint_token(str(token_of("a")), PRINTS)
    with pytest.raises(TokenRefused):
        parse_token(str(JOINT))


def test_members_of_several_frontiers_are_no_token() -> None:
    with pytest.raises(ValueError, match="one frontier"):
        JointToken({"a": token_of("a"), "b": token_of("b", wall=8)})
    with pytest.raises(ValueError, match="one frontier"):
        JointToken({})
