"""Resume tokens: where a subscription goes on, as one text that a consumer stores with what it applied.

A token's text is the unpadded url-safe base64 of compact JSON:

    {"fingerprint":"...","format":1,"frontier":"1.0000000001","offsets":[["orders",0,1234]]}

``frontier`` is exclusive: everything below it was delivered. If a server's timestamps are plain numbers, the
frontier has the number after the point, in as many digits as it needs: ``0.1700000000000``. ``offsets`` says
from where each partition has to be read to get the rest. ``fingerprint`` is that of the subscription; UP TO,
AS OF and PROGRESS are no part of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.errors import TokenRefused
from tidegate.hlc import MAX_LOGICAL, Timestamp, parse_decimal
from tidegate.subscribe.client.received_row import PLAIN_NUMBER_MAX
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of

TOKEN_FORMAT: Final = 1
_PLAIN_NUMBER: Final = re.compile(r"0\.(?P<number>[0-9]{10,20})")
#: Enough for 20,000 partitions. tidegate never writes a token that is longer than this.
_MOST_CHARACTERS: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """A token: the frontier and the offsets at which a subscription resumes."""

    frontier: Frontier
    fingerprint: str
    offsets: Mapping[FeedPartition, int] = field(default_factory=dict)

    @property
    def as_of(self) -> Timestamp:
        """The AS OF with which the subscription goes on. It gives no snapshot then."""
        return resume_as_of(self.frontier)

    def __str__(self) -> str:
        members = {
            "fingerprint": self.fingerprint,
            "format": TOKEN_FORMAT,
            "frontier": self.frontier.decimal(),
            "offsets": sorted([*place, offset] for place, offset in self.offsets.items()),
        }
        return token_text(members)


def read_token(text: str, fingerprint: str) -> ResumeToken:
    """Read a token's text for a subscription with this fingerprint.

    Raises ``TokenRefused`` for a damaged token, one of another subscription, and one of a newer format.
    """
    token = parse_token(text)
    if token.fingerprint != fingerprint:
        raise TokenRefused(
            f"The token is of another subscription (fingerprint {token.fingerprint:.20}, not {fingerprint}): "
            "the table, the query, the columns or the envelope differ, or an earlier version told the rows "
            "apart by the text of their DECIMAL and FLOAT keys. Begin this one with a snapshot"
        )
    return token


def parse_token(text: str) -> ResumeToken:
    """Read a token's text, of any subscription: for code that stores tokens, not for a resume.

    Raises ``TokenRefused`` for a damaged token, and one of a newer format.
    """
    members = token_members(text)
    try:
        return _token(members)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged_token(f"{error!r:.100}") from None


def token_text(members: Mapping[str, Any]) -> str:
    """Return the text of a token with these members."""
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def token_members(text: str) -> dict[str, Any]:
    """Return the members of a token's text, which must have the format of this version.

    Raises ``TokenRefused`` for a damaged token, and one of a newer format.
    """
    members = _members(text)
    form = members.get("format")
    if type(form) is int and form > TOKEN_FORMAT:
        raise TokenRefused(
            f"The token has format {form}, and this version of tidegate reads format {TOKEN_FORMAT}: "
            "a newer one wrote it. Upgrade, or begin again with a snapshot"
        )
    if type(form) is not int or form != TOKEN_FORMAT:
        raise damaged_token(f"format {form!r:.20}")
    return members


def _members(text: str) -> dict[str, Any]:
    if len(text) > _MOST_CHARACTERS:
        raise damaged_token(f"{len(text)} characters")
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        members = json.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise damaged_token("not base64 of JSON") from None
    if not isinstance(members, dict):
        raise damaged_token("not an object")
    return members


def _token(members: Mapping[str, Any]) -> ResumeToken:
    offsets: dict[FeedPartition, int] = {}
    for topic, partition, offset in members["offsets"]:
        if not isinstance(topic, str) or type(partition) is not int or type(offset) is not int or offset < 0:
            raise ValueError("an offset that is none")
        offsets[FeedPartition(topic, partition)] = offset
    if not isinstance(members["fingerprint"], str):
        raise TypeError("a fingerprint is a text")
    return ResumeToken(_frontier(members["frontier"]), members["fingerprint"], offsets)


def _frontier(text: str) -> Frontier:
    """Read an HLC decimal, or a plain number that is too large for the logical part of an HLC.

    So two texts never mean one frontier. Raises ``ValueError`` for any other text.
    """
    if isinstance(text, str) and (plain := _PLAIN_NUMBER.fullmatch(text)):
        timestamp = Timestamp(0, int(plain["number"]))
        if MAX_LOGICAL < timestamp.logical <= PLAIN_NUMBER_MAX and timestamp.decimal() == text:
            return Frontier(timestamp)
    return Frontier(parse_decimal(text))


def damaged_token(what: str) -> TokenRefused:
    """Make the error for a text that is no token."""
    return TokenRefused(f"The token is damaged, or none ({what}): nothing can be resumed from it")
