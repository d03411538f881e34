"""Statements from keyword arguments: ``subscribe_statement("flights", envelope="upsert", key=["id"])``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from tidegate.hlc import Timestamp
from tidegate.subscribe.statement.expression import ColumnReference, Constant
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import (
    BoundClause,
    OutputClause,
    OutputMode,
    SubscribeStatement,
)

_ENVELOPES = {"upsert": OutputMode.UPSERT, "debezium": OutputMode.DEBEZIUM}


def subscribe_statement(
    subject: str,
    *,
    envelope: str = "",
    key: Sequence[str] = (),
    order_by: Sequence[str] = (),
    progress: bool = False,
    snapshot: bool = True,
    as_of: Timestamp | int | str | None = None,
    at_least: bool = False,
    up_to: Timestamp | int | str | None = None,
) -> SubscribeStatement:
    """Make the statement that some keyword arguments describe.

    Args:
        subject: a table's name or a query, as SQL: ``flights`` or ``SELECT a FROM t WHERE b > 1``.
        envelope: ``upsert`` or ``debezium``, with ``key``; empty for diffs.
        key: names of columns as they are, without quotes.
        order_by: items of WITHIN TIMESTAMP ORDER BY as SQL: ``["a DESC NULLS LAST", "mz_diff"]``.
        progress: whether progress rows are among the rows.
        snapshot: whether the rows as of ``as_of`` come first.
        as_of: the time at which the subscription begins; with ``at_least`` it may begin later.
        up_to: the time at which the subscription ends; it is excluded.

    Raises ``SubscribeStatementError``. Its position is an offset in a text that begins with ``SUBSCRIBE`` and
    ``subject``.
    """
    query = subject.lstrip("( \t\n").lower().startswith("select")
    text = (
        f"SUBSCRIBE ({subject})" if query and not subject.lstrip().startswith("(") else f"SUBSCRIBE {subject}"
    )
    items = f" WITHIN TIMESTAMP ORDER BY {', '.join(order_by)}" if order_by else ""
    statement = parse_subscribe(text + items)
    if envelope:
        statement = replace(statement, output=_envelope(envelope, key, statement.output))
    elif key:
        raise StatementFault.INVALID_KEY.error("key without an envelope: say envelope='upsert' or 'debezium'")
    return replace(
        statement,
        progress=progress,
        snapshot=snapshot,
        as_of=_bound(as_of, at_least=at_least),
        up_to=_bound(up_to),
    )


def _envelope(envelope: str, key: Sequence[str], output: OutputClause) -> OutputClause:
    mode = _ENVELOPES.get(envelope.lower())
    if mode is None:
        raise StatementFault.SYNTAX.error(f"Expected one of UPSERT or DEBEZIUM, found {envelope!r:.60}")
    if output.mode is not OutputMode.DIFFS:
        raise StatementFault.CONFLICTING_MODIFIERS.error("Expected end of statement, found ENVELOPE")
    return OutputClause(mode, key=tuple(ColumnReference((name,)) for name in key))


def _bound(value: Timestamp | int | str | None, *, at_least: bool = False) -> BoundClause | None:
    if value is None:
        return None
    number = Decimal(value.decimal()) if isinstance(value, Timestamp) else value
    return BoundClause(Constant(number), str(value), at_least)
