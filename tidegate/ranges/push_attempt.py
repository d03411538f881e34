"""One push of old transactions: who is pushed, and what follows from the answer.

Source: CockroachDB ``rangefeed/task.go`` (``txnPushAttempt``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import AbortTxn, Op, TxnId, UpdateIntent
from tidegate.spans import Span

#: As many transactions one push names at most, the oldest: neither a request nor the work of its answer may
#: grow with all that is open. The others are pushed when those are answered.
TXNS_PER_PUSH_MAX: Final = 1_000


class TxnStatus(enum.Enum):
    """How a pushed transaction stands."""

    PENDING = "pending"
    STAGING = "staging"
    COMMITTED = "committed"
    ABORTED = "aborted"


class PushTarget(NamedTuple):
    """What a push found: the transaction's timestamp now, and where its locks are, if its record says so."""

    txn_id: TxnId
    status: TxnStatus
    timestamp: Timestamp
    lock_spans: tuple[Span, ...] = ()


class PushAnswer(NamedTuple):
    """The answer to a push, one entry for each transaction that was named.

    ``ambiguous_abort``: an ``ABORTED`` was only concluded from a record that is missing. The transaction may
    have committed, and its record been removed since.
    """

    txns: tuple[PushTarget, ...]
    ambiguous_abort: bool = False


class ResolveIntents(NamedTuple):
    """Asks for the intents of an ended transaction in ``span`` to be resolved."""

    txn_id: TxnId
    span: Span


def ops_of(answer: PushAnswer) -> tuple[Op, ...]:
    """The ops that the answer amounts to, in its order.

    A committed transaction stays tracked until its commits come; an aborted one is dropped.
    """
    return tuple(
        AbortTxn(txn.txn_id) if txn.status is TxnStatus.ABORTED else UpdateIntent(txn.txn_id, txn.timestamp)
        for txn in answer.txns
    )


def resolutions_of(txns: Iterable[PushTarget], range_span: Span) -> Iterator[ResolveIntents]:
    """The intents of ended transactions that lie in the range.

    Clipped to it: each range of a large transaction would otherwise ask for all its intents.
    """
    for txn in txns:
        if txn.status in (TxnStatus.COMMITTED, TxnStatus.ABORTED):
            for span in txn.lock_spans:
                part = span.intersect(range_span)
                if part is not None:
                    yield ResolveIntents(txn.txn_id, part)
