"""The moments of a store: events that a feed's markers show. Who watches a run sees them as they happen."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from tidegate.raftlog.entry import RangeId, TxnId

#: So many moments are kept until somebody takes them. Older ones are dropped: moments are only shown.
_MOST_KEPT: Final = 1_000


class MomentKind(StrEnum):
    """The kind of an event in the store."""

    ABANDONED = "abandoned"  # a coordinator died, and left intents that hold markers back
    PUSHED = "pushed"  # the first push moved its intents up: they hold back no marker below the push
    ENDED = "ended"  # somebody aborted an abandoned transaction
    SPLIT = "split"
    MERGED = "merged"


class EndedBy(StrEnum):
    """The cause that aborted an abandoned transaction."""

    PUSH = "push"  # a feed's engine asked for it
    WRITE = "write"  # another transaction met its intents
    SCAN = "scan"  # a scan met them
    STOP = "stop"  # the store ended everything that was open


class Moment(NamedTuple):
    """An event at ``at_ns`` of the store's time, with the tables that it concerns.

    ``txn`` is the transaction's id in hex. When it is pushed or has ended, ``open_ms`` says how long it had
    been abandoned, and ``moved`` whether a push had moved it before its end. ``ranges`` are, for a split, the
    range and the new one; for a merge, the range that stays and the one that ended.
    """

    at_ns: int
    kind: MomentKind
    tables: tuple[str, ...]
    txn: str = ""
    ended_by: EndedBy | None = None
    open_ms: int = 0
    moved: bool = False
    ranges: tuple[int, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return the moment as JSON has it; ``of`` reads it back."""
        return self._asdict()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Read a moment.

        Raises ``ValueError`` for a kind that is not known, ``TypeError`` for a field that is missing.
        """
        ended_by = fields.get("ended_by")
        read = {
            "kind": MomentKind(fields["kind"]),
            "tables": tuple(fields["tables"]),
            "ended_by": None if ended_by is None else EndedBy(ended_by),
            "ranges": tuple(fields["ranges"]),
        }
        return cls(**{**fields, **read})


class Moments:
    """The moments that nobody has taken yet, the oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Moment] = deque(maxlen=_MOST_KEPT)

    def note_abandoned(self, at_ns: int, txn: TxnId, tables: tuple[str, ...]) -> None:
        """Note that a transaction was abandoned."""
        self._kept.append(Moment(at_ns, MomentKind.ABANDONED, tables, txn.hex()))

    def note_pushed(self, at_ns: int, txn: TxnId, tables: tuple[str, ...], open_ms: int) -> None:
        """Note that an abandoned transaction was moved by its first push."""
        self._kept.append(Moment(at_ns, MomentKind.PUSHED, tables, txn.hex(), open_ms=open_ms))

    def note_ended(
        self,
        at_ns: int,
        txn: TxnId,
        tables: tuple[str, ...],
        ended_by: EndedBy,
        open_ms: int,
        *,
        moved: bool,
    ) -> None:
        """Note that an abandoned transaction was aborted, and whether a push had moved it before."""
        self._kept.append(Moment(at_ns, MomentKind.ENDED, tables, txn.hex(), ended_by, open_ms, moved))

    def note_ranges(self, at_ns: int, kind: MomentKind, tables: tuple[str, ...], *ranges: RangeId) -> None:
        """Note a split or a merge."""
        self._kept.append(Moment(at_ns, kind, tables, ranges=tuple(ranges)))

    def take_moments(self) -> tuple[Moment, ...]:
        """Return the moments since the last call."""
        taken = tuple(self._kept)
        self._kept.clear()
        return taken
