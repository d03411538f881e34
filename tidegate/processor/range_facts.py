"""The status of one range, for operators. A worker sends it to a command as JSON.

Spans have no tenant prefix, like those that feeds watch. Fields of the form ``<name>_ms`` are log times in
milliseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidegate.changefeed.definition.stored_fields import (
    MAX_UINT64,
    hexadecimal,
    items,
    members,
    optional,
    plain_text,
    plain_whole,
    signed,
    text,
    timestamp,
    whole,
)
from tidegate.hlc import Timestamp
from tidegate.processor.push_policy import LastPush
from tidegate.raftlog.entry import Generation, Offset, RangeId, TxnId
from tidegate.spans import Span

Json: TypeAlias = Mapping[str, Any]


class Condition(enum.Enum):
    """The condition of a range: the first one of this list that holds."""

    ENDED = "ended"
    HEALING = "healing"
    """Parked for a scan that brings the versions that were lost in a hole."""
    PARKED = "parked"
    """Waits for hand-offs of other ranges."""
    QUARANTINED = "quarantined"
    """Broken, and no snapshot has come that it could heal from."""
    CATCHING_UP = "catching up"
    """Waits for nothing, and has yet to apply entries that the partition has passed."""
    STARTING = "starting"
    """Its first snapshot is not complete."""
    CHANGING = "changing"
    """Split or merged, and the snapshot that must follow is not complete."""
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class OpenTxn:
    """The oldest open transaction of a range: its intents stand at ``timestamp`` or above."""

    txn_id: TxnId
    anchor_key: bytes
    began: Timestamp
    timestamp: Timestamp
    intents: int


@dataclass(frozen=True, slots=True)
class ScanFacts:
    """A scan that is under way: everything of ``span`` below ``next_key`` has come.

    ``asked_ms`` is when it was asked for last, or its last chunk came.
    """

    span: Span
    next_key: bytes
    after: Timestamp
    upto: Timestamp
    asked_ms: int


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """The facts about one range that an operator is told.

    The range's output is complete up to ``resolved``, and its source has closed ``closed``. ``offset`` is the
    place in the log of a quarantine's ``cause``, if there is one, and otherwise the place where the backlog
    of ``entries`` begins. ``since_ms`` is when the range was parked. ``parents`` are the ranges whose
    hand-offs it waits for. ``txn`` is the oldest of its ``open_transactions``, and ``push`` the last push
    that was sent for it.
    """

    range_id: RangeId
    generation: Generation
    condition: Condition
    span: Span | None
    resolved: Timestamp
    closed: Timestamp
    open_transactions: int = 0
    offset: Offset | None = None
    cause: str = ""
    entries: int = 0
    since_ms: int | None = None
    parents: tuple[RangeId, ...] = ()
    scan: ScanFacts | None = None
    txn: OpenTxn | None = None
    push: LastPush | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON: keys and transaction ids in hexadecimal, timestamps as text."""
        return {
            "range_id": self.range_id,
            "generation": self.generation,
            "state": self.condition.value,
            "span": None if self.span is None else _span_json(self.span),
            "resolved": str(self.resolved),
            "closed": str(self.closed),
            "open_transactions": self.open_transactions,
            "offset": self.offset,
            "cause": self.cause,
            "backlog_entries": self.entries,
            "since_ms": self.since_ms,
            "parents": list(self.parents),
            "scan": None if self.scan is None else _scan_json(self.scan),
            "oldest_transaction": None if self.txn is None else _txn_json(self.txn),
            "last_push": None if self.push is None else _push_json(self.push),
        }

    @classmethod
    def from_json(cls, row: Json) -> RangeFacts:
        """Return the facts that ``to_json`` wrote.

        Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else.
        """
        if row["scan"] is None and row["state"] == Condition.HEALING.value:
            raise ValueError("a range that heals has no scan")
        return cls(
            RangeId(whole(row, "range_id")),
            Generation(whole(row, "generation", high=MAX_UINT64)),
            Condition(text(row, "state")),
            optional(_span_of, row, "span"),
            timestamp(row, "resolved"),
            timestamp(row, "closed"),
            whole(row, "open_transactions"),
            None if (offset := optional(whole, row, "offset")) is None else Offset(offset),
            text(row, "cause"),
            whole(row, "backlog_entries"),
            optional(signed, row, "since_ms"),
            tuple(RangeId(plain_whole(parent, "parents")) for parent in items(row, "parents")),
            None if row["scan"] is None else _scan_of(members(row, "scan")),
            None if row["oldest_transaction"] is None else _txn_of(members(row, "oldest_transaction")),
            None if row["last_push"] is None else _push_of(members(row, "last_push")),
        )


def _span_json(span: Span) -> list[str]:
    return [span.start.hex(), span.end.hex()]


def _span_of(row: Json, name: str) -> Span:
    start, end = items(row, name)
    return Span(bytes.fromhex(plain_text(start, name)), bytes.fromhex(plain_text(end, name)))


def _scan_json(scan: ScanFacts) -> dict[str, Any]:
    return {
        "span": _span_json(scan.span),
        "next_key": scan.next_key.hex(),
        "after": str(scan.after),
        "upto": str(scan.upto),
        "asked_ms": scan.asked_ms,
    }


def _scan_of(row: Json) -> ScanFacts:
    return ScanFacts(
        _span_of(row, "span"),
        hexadecimal(row, "next_key"),
        timestamp(row, "after"),
        timestamp(row, "upto"),
        signed(row, "asked_ms"),
    )


def _txn_json(txn: OpenTxn) -> dict[str, Any]:
    return {
        "id": txn.txn_id.hex(),
        "anchor_key": txn.anchor_key.hex(),
        "began": str(txn.began),
        "timestamp": str(txn.timestamp),
        "intents": txn.intents,
    }


def _txn_of(row: Json) -> OpenTxn:
    return OpenTxn(
        TxnId(hexadecimal(row, "id")),
        hexadecimal(row, "anchor_key"),
        timestamp(row, "began"),
        timestamp(row, "timestamp"),
        signed(row, "intents"),
    )


def _push_json(push: LastPush) -> dict[str, Any]:
    return {
        "asked_ms": push.asked_ms,
        "tries": push.tries,
        "oldest": push.oldest.hex(),
        "oldest_at": str(push.oldest_at),
        "transactions": push.txns,
        "ended": push.ended,
        "moved": push.moved,
    }


def _push_of(row: Json) -> LastPush:
    return LastPush(
        signed(row, "asked_ms"),
        whole(row, "tries"),
        TxnId(hexadecimal(row, "oldest")),
        timestamp(row, "oldest_at"),
        whole(row, "transactions"),
        whole(row, "ended"),
        whole(row, "moved"),
    )
