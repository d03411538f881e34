"""A push of old transactions, its answer, and what follows from the answer.

Source: CockroachDB ``rangefeed/task.go`` (``txnPushAttempt``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import AbortTxn, Op, TxnId, UpdateIntent
from tidegate.spans import Span

#: The most transactions that one push names: the oldest ones. So a request, and the work for its answer, do
#: not grow with the number of open transactions. The others are pushed when these are answered.
TXNS_PER_PUSH_MAX: Final = 1_000


class TxnStatus(enum.Enum):
    """The status of a pushed transaction."""

    PENDING = "pending"
    STAGING = "staging"
    COMMITTED = "committed"
    ABORTED = "aborted"


class PushTarget(NamedTuple):
    """The answer of a push for one transaction: its present status and timestamp, and the spans of its locks.

    The lock spans are empty if the transaction's record does not tell them.
    """

    txn_id: TxnId
    status: TxnStatus
    timestamp: Timestamp
    lock_spans: tuple[Span, ...] = ()


class PushAnswer(NamedTuple):
    """The answer to a push, with one entry for each transaction that it named.

    ``ambiguous_abort`` means that an ``ABORTED`` was concluded only from a missing transaction record. The
    transaction may have committed, and its record may have been removed after that.
    """

    txns: tuple[PushTarget, ...]
    ambiguous_abort: bool = False


class ResolveIntents(NamedTuple):
    """A request to resolve the intents of an ended transaction in ``span``."""

    txn_id: TxnId
    span: Span


def ops_of(answer: PushAnswer) -> tuple[Op, ...]:
    """Return one op for each transaction of the answer, in its order.

    It is ``AbortTxn`` for an aborted transaction, ``UpdateIntent`` otherwise.
    A committed transaction stays tracked until its commits come. An aborted one is dropped.
    """
    return tuple(
        AbortTxn(txn.txn_id) if txn.status is TxnStatus.ABORTED else UpdateIntent(txn.txn_id, txn.timestamp)
        for txn in answer.txns
    )


def resolutions_of(txns: Iterable[PushTarget], range_span: Span) -> Iterator[ResolveIntents]:
    """Yield requests for the intents of ended transactions in the range.

    Their spans are clipped to the range. Otherwise each range of a large transaction would ask for all of its
    intents.
    """
    for txn in txns:
        if txn.status in (TxnStatus.COMMITTED, TxnStatus.ABORTED):
            for span in txn.lock_spans:
                part = span.intersect(range_span)
                if part is not None:
                    yield ResolveIntents(txn.txn_id, part)
