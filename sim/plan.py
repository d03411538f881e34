"""What a workload asks for: transactions, written down before they run."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.spans import Span

#: From the value that stands there (``None``: no row) to the one that replaces it; empty deletes the row.
Change: TypeAlias = Callable[[bytes | None], bytes]

#: The next version of a table's descriptor, valid from a timestamp on.
Alteration: TypeAlias = Callable[[Timestamp], DescriptorUpdate]


class Write(NamedTuple):
    """A put, or with an empty value a delete."""

    key: bytes
    value: bytes | Change


class Outcome(enum.Enum):
    """How a transaction goes, unless the store decides otherwise."""

    COMMIT = "commit"
    RESTART = "restart"  # in a new epoch, then commit
    ABORT = "abort"
    ABANDON = "abandon"  # the coordinator dies before it decides


@dataclass(frozen=True, slots=True)
class OutcomeMix:
    """Shares of the outcomes, between 0 and 1; the rest commit."""

    restart: float = 0.0
    abort: float = 0.0
    abandon: float = 0.0

    def choose(self, rng: Random) -> Outcome:
        """An outcome at random."""
        drawn = rng.random()
        if drawn < self.restart:
            return Outcome.RESTART
        if drawn < self.restart + self.abort:
            return Outcome.ABORT
        return Outcome.ABANDON if drawn < self.restart + self.abort + self.abandon else Outcome.COMMIT


#: No transaction is left to others: without anybody who pushes, an abandoned one would hold time back.
ORDINARY: Final = OutcomeMix(restart=0.01, abort=0.01)


class TransactionPlan(NamedTuple):
    """A transaction. ``rewrites`` are the writes of its second epoch where the outcome is a restart.

    ``one_phase`` asks for no intents, which works where all writes are in one range. No other transaction
    starts before one that is ``alone`` has ended.

    With ``alter`` it is no transaction but a schema change, at a time when no transaction has a coordinator.
    Those that start afterwards are above it, and may write by the new version.
    """

    writes: tuple[Write, ...]
    outcome: Outcome = Outcome.COMMIT
    rewrites: tuple[Write, ...] = ()
    one_phase: bool = False
    alone: bool = False
    alter: Alteration | None = None


class SimTable(NamedTuple):
    """A table of the store: its descriptor, and the spans of its ranges (all of its key space, in order)."""

    descriptor: DescriptorUpdate
    spans: tuple[Span, ...]


class Workload(Protocol):
    """Tables, and an iterator of transactions, both functions of what the workload was built with."""

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """The tables, their descriptors modified at ``modified``: below any row."""

    def plans(self) -> Iterator[TransactionPlan]:
        """The transactions, in the order in which they start."""
