"""The plans of a workload: transactions, written down before they run."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.spans import Span

#: Makes the new value from the present one (``None``: no row). An empty new value deletes the row.
Change: TypeAlias = Callable[[bytes | None], bytes]

#: Makes the next version of a table's descriptor, which is valid from a timestamp on.
Alteration: TypeAlias = Callable[[Timestamp], DescriptorUpdate]


class Write(NamedTuple):
    """A put of a value. With an empty value it is a delete."""

    key: bytes
    value: bytes | Change


class Outcome(enum.Enum):
    """The planned end of a transaction. The store may decide otherwise."""

    COMMIT = "commit"
    RESTART = "restart"  # restart in a new epoch, then commit
    ABORT = "abort"
    ABANDON = "abandon"  # the coordinator dies before it decides


@dataclass(frozen=True, slots=True)
class OutcomeMix:
    """The shares of the outcomes, between 0 and 1; all other transactions commit."""

    restart: float = 0.0
    abort: float = 0.0
    abandon: float = 0.0

    def choose(self, rng: Random) -> Outcome:
        """Return an outcome at random."""
        drawn = rng.random()
        if drawn < self.restart:
            return Outcome.RESTART
        if drawn < self.restart + self.abort:
            return Outcome.ABORT
        return Outcome.ABANDON if drawn < self.restart + self.abort + self.abandon else Outcome.COMMIT


#: No transaction is abandoned. Where nobody pushes, an abandoned transaction would hold back resolved
#: timestamps.
ORDINARY: Final = OutcomeMix(restart=0.01, abort=0.01)


class TransactionPlan(NamedTuple):
    """A transaction, or a schema change.

    ``rewrites`` are the writes of its second epoch if the outcome is a restart. ``one_phase`` asks for a
    commit without intents, which works if all writes are in one range. After a transaction that is ``alone``
    has started, no other one starts until it has ended.

    With ``alter`` the plan is a schema change. It happens when no transaction has a coordinator. Transactions
    that start afterwards have higher timestamps, and may write rows of the new version.
    """

    writes: tuple[Write, ...]
    outcome: Outcome = Outcome.COMMIT
    rewrites: tuple[Write, ...] = ()
    one_phase: bool = False
    alone: bool = False
    alter: Alteration | None = None


class SimTable(NamedTuple):
    """A table of the store: its descriptor, and the spans of its ranges, which cover all of its keys in
    order.
    """

    descriptor: DescriptorUpdate
    spans: tuple[Span, ...]


class Workload(Protocol):
    """Tables, and an iterator of transactions. Both depend only on the workload's own parameters."""

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """Return the tables. Their descriptors are modified at ``modified``, below every row's timestamp."""

    def plans(self) -> Iterator[TransactionPlan]:
        """Yield the transactions, in the order in which they start."""
