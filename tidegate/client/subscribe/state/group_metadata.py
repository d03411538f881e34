"""A token as the offsets of a consumer group, and the metadata that each of them has.

    {"digest":"...","epoch":1790000000000,"fingerprint":"...","format":1,"frontier":"7.0000000003"}

The digest covers all offsets. Offsets that somebody else committed since do not fit it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from tidegate.errors import HistoryLost, StateError, TokenRefused, brief
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.subscribe.client.resume_token import ResumeToken, parse_token
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.updates.frontier import Frontier

METADATA_FORMAT: Final = 1
#: The broker's default of ``offset.metadata.max.bytes``.
METADATA_BYTES: Final = 4_096
#: Characters of a format that an error shows.
_FORM_CHARACTERS: Final = 20
_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset of a group, with its metadata."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """The checkpoint in a group's offsets: the epoch of its last holder (0 for none), and its token."""

    epoch: int
    token: str | None


def group_offsets(token: str, epoch: int, group: str) -> dict[FeedPartition, GroupOffset]:
    """Return the offsets to commit for a token. Raises ``TokenRefused`` for one that offsets cannot hold."""
    parsed = parse_token(token)
    if not parsed.offsets:
        raise TokenRefused(
            f"The token has no offsets, so the consumer group {group} cannot keep it: use another store"
        )
    members = {
        "digest": _digest(parsed.offsets),
        "epoch": epoch,
        "fingerprint": parsed.fingerprint,
        "format": METADATA_FORMAT,
        "frontier": parsed.frontier.decimal(),
    }
    metadata = json.dumps(members, sort_keys=True, separators=(",", ":"))
    if len(metadata) > METADATA_BYTES:
        raise TokenRefused(
            f"The fingerprint of the token has {len(parsed.fingerprint)} characters: the metadata of an "
            f"offset has {METADATA_BYTES} bytes in all. It was not made here"
        )
    return {place: GroupOffset(offset, metadata) for place, offset in parsed.offsets.items()}


def read_group(found: Mapping[FeedPartition, GroupOffset], group: str) -> StoredCheckpoint:
    """Return the checkpoint that a group's offsets stand for.

    Offsets of an earlier commit, of partitions that later tokens do not have, are passed over. Raises
    ``HistoryLost`` for offsets that were not committed together, ``StateError`` for those of a newer
    version.
    """
    if not found:
        return StoredCheckpoint(0, None)
    read = {place: _members(each.metadata, place, group) for place, each in found.items()}
    newest = max(read.values(), key=_order)
    offsets = {place: found[place].offset for place, members in read.items() if members == newest}
    if newest["digest"] != _digest(offsets):
        raise _foreign(group, f"those of {', '.join(sorted(map(str, offsets)))} do not fit together")
    frontier = Frontier(parse_decimal(newest["frontier"]))
    return StoredCheckpoint(newest["epoch"], str(ResumeToken(frontier, newest["fingerprint"], offsets)))


def _order(members: Mapping[str, Any]) -> tuple[int, Timestamp]:
    return members["epoch"], parse_decimal(members["frontier"])


def _members(metadata: str, place: FeedPartition, group: str) -> dict[str, Any]:
    try:
        members: dict[str, Any] = json.loads(metadata)
        form = members["format"]
        _require(int, form)
        if form == METADATA_FORMAT:
            _require(int, members["epoch"])
            _require(str, members["digest"], members["fingerprint"])
            _order(members)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _foreign(group, f"that of {place} was committed by something else") from None
    if form != METADATA_FORMAT:
        shown = brief(str(form), _FORM_CHARACTERS)
        raise StateError(
            f"The offsets of the consumer group {group} have metadata of format {shown}, and this version of "
            f"tidegate reads format {METADATA_FORMAT}: a newer one wrote it. Upgrade"
        )
    return members


def _require(kind: type, *values: Any) -> None:
    """Require values of exactly that type: a truth value is no number here, and ``1e999`` no integer."""
    if any(type(value) is not kind for value in values):
        raise TypeError(f"not {kind.__name__}")


def _foreign(group: str, how: str) -> HistoryLost:
    return HistoryLost(
        f"The offsets of the consumer group {group} are no checkpoint ({how}): where to go on is not known. "
        "Let nothing else commit to this group; delete its offsets or name another one, and begin with a "
        "snapshot"
    )


def _digest(offsets: Mapping[FeedPartition, int]) -> str:
    text = json.dumps(sorted([*place, offset] for place, offset in offsets.items()))
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
