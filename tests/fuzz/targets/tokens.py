"""Tokens of subscriptions: a consumer has stored them anywhere, and anybody may have written them.

An input is the text of a token: damaged as it stands, or damaged JSON in its base64.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from random import Random
from typing import Final

from tests.fuzz.mutators import damaged
from tests.fuzz.target import Target, require
from tidegate.errors import TokenRefused
from tidegate.hlc import MAX, Timestamp
from tidegate.subscribe.client.joint_token import JointToken, read_joint_token
from tidegate.subscribe.client.resume_token import ResumeToken, parse_token
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.updates.frontier import Frontier

_PRINTS: Final = {"a": "0" * 32, "bé": "1" * 32}


def _token(fingerprint: str, frontier: Timestamp) -> ResumeToken:
    offsets = {FeedPartition("accounts", 0): 12, FeedPartition("träge", 31): 2**62}
    return ResumeToken(Frontier(frontier), fingerprint, offsets)


_TOKENS: Final = tuple(
    str(token)
    for time in (Timestamp(0), Timestamp(1_700_000_000_000_000_000, 3), MAX)
    for token in (
        _token(_PRINTS["a"], time),
        JointToken({name: _token(each, time) for name, each in _PRINTS.items()}),
    )
)


def _draw(chance: Random) -> bytes:
    text = chance.choice(_TOKENS)
    if chance.random() < 0.3:
        return damaged(chance, text.encode())
    content = damaged(chance, base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _run(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(TokenRefused):
        joint = read_joint_token(text, _PRINTS)
        require(read_joint_token(str(joint), _PRINTS) == joint, "a joint token is read as it is written")
        require(joint.members.keys() == _PRINTS.keys(), "a joint token has the members that were asked for")
        return
    token = parse_token(text)
    require(parse_token(str(token)) == token, "a token is read as it is written")
    require(token.as_of <= token.frontier, "a resume does not begin above its frontier")


TARGETS: Final = (Target("tokens", _draw, _run, (TokenRefused,)),)
