"""Cases of kind ``error``: statements that fail, with a code and a text.

A few codes are caused by no statement: the past is gone, the table is dropped, the reader is too slow, the
result is too large. The check brings that about, and the code under test has to find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.conformance.case import Case
from tests.conformance.subscribe_relations import relations_of, subscribe_of
from tidegate.errors import FellBehind, SubscribeError, SubscribeStatementError
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.reader_backlog import ReaderBacklog
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.readable_history import ReadableHistory, dropped
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.transaction_reads import TransactionReads

_Fault = SubscribeError | SubscribeStatementError | FellBehind
_PRESENT: Final = Timestamp(1_000)


def check_error(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    try:
        statement = parse_subscribe(subscribe_of(case))
        plan = plan_subscribe(statement, relations_of(case), now_ns=0, dialect=Dialect.MATERIALIZE)
        _provoke(case["error_code"], plan)
    except (SubscribeError, SubscribeStatementError, FellBehind) as error:
        return _compare(case, error)
    return f"expected {case['error_code']}, got a plan"


def _provoke(code: str, plan: SubscribePlan) -> None:
    """Bring about what the code says, if no statement does."""
    for words, bring_about in _EVENTS.items():
        if any(word in code for word in words):
            bring_about(plan)
    ReadableHistory(Timestamp(0), _PRESENT).choose_as_of(plan)


def _lose_history(plan: SubscribePlan) -> None:
    as_of = plan.as_of or Timestamp(0)
    ReadableHistory(as_of.next(), _PRESENT).require(as_of, plan.dialect)


def _drop(plan: SubscribePlan) -> None:
    raise dropped(plan.relation)


def _fall_behind(plan: SubscribePlan) -> None:
    backlog = ReaderBacklog(plan.dialect, backlog_bytes=10_000)
    for _ in range(10):
        backlog.add(5_000)


def _make_large(plan: SubscribePlan) -> None:
    ReaderBacklog(plan.dialect, result_bytes=10_000).add(10_001)


def _read_twice(_: SubscribePlan) -> None:
    transaction = TransactionReads()
    transaction.begin_subscribe()
    transaction.begin_subscribe()


#: By words of a code, what happens.
_EVENTS: Final[dict[tuple[str, ...], Callable[[SubscribePlan], None]]] = {
    ("history", "compacted"): _lose_history,
    ("dropped",): _drop,
    ("behind",): _fall_behind,
    ("too_large", "result_size"): _make_large,
    ("transaction", "only_read"): _read_twice,
}
#: The codes that the vectors and the code have in common. A case that calls its fault by a name of its own is
#: told by its text.
_CODES: Final = frozenset(
    {"conflicting_modifiers", "duplicate_key", "history_lost", "invalid_order_by", "unknown_column"}
    | {"unknown_option"}
)


def _compare(case: Case, error: _Fault) -> str | None:
    code, text = case["error_code"], case["expect_error"]
    if text not in str(error):
        return f"expected the text {text!r}, got {error.code}: {error}"
    if error.code != code and code in _CODES:
        return f"expected {code}, got {error.code}: {error}"
    return None
