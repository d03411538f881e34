"""The joint token of several subscriptions at one cut, which a consumer stores once for all of them.

It is the unpadded url-safe base64 of compact JSON, which has the token of each member:

    {"format":1,"members":{"accounts":"eyJ...","transfers":"eyJ..."}}

All member tokens have the same frontier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import TokenRefused
from tidegate.subscribe.client.resume_token import (
    TOKEN_FORMAT,
    ResumeToken,
    damaged_token,
    read_token,
    token_members,
    token_text,
)
from tidegate.subscribe.updates.frontier import Frontier


@dataclass(frozen=True, slots=True)
class JointToken:
    """A token of several subscriptions. ``members`` are their tokens, all of one frontier.

    Raises ``ValueError`` if there are no members, or if their frontiers differ.
    """

    members: Mapping[str, ResumeToken]

    def __post_init__(self) -> None:
        if len({token.frontier for token in self.members.values()}) != 1:
            raise ValueError("the members of a joint token have one frontier")

    @property
    def frontier(self) -> Frontier:
        """The joint frontier."""
        return next(iter(self.members.values())).frontier

    def __str__(self) -> str:
        members = {name: str(token) for name, token in self.members.items()}
        return token_text({"format": TOKEN_FORMAT, "members": members})


def read_joint_token(text: str, fingerprints: Mapping[str, str]) -> JointToken:
    """Read a joint token's text for members with these fingerprints.

    Raises ``TokenRefused`` for a damaged token, one of a newer format, and one of other members.
    """
    members = token_members(text).get("members")
    if not isinstance(members, dict) or not all(isinstance(each, str) for each in members.values()):
        raise damaged_token("no members, so not of several tables")
    if members.keys() != fingerprints.keys():
        raise TokenRefused(
            f"The token is of the tables {', '.join(sorted(members)):.200}, and the subscription of "
            f"{', '.join(sorted(fingerprints)):.200}. Begin this one with a snapshot"
        )
    tokens = {name: read_token(members[name], each) for name, each in fingerprints.items()}
    try:
        return JointToken(tokens)
    except ValueError as error:
        raise damaged_token(str(error)) from None
