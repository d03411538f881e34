"""The plan of a subscription: a statement, resolved against the tables that exist.

text --parser--> SubscribeStatement --plan--> SubscribePlan --Subscription--> batches
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.dialect import Dialect, read_dialect
from tidegate.subscribe.outputs.shape import OutputShape, shape_of
from tidegate.subscribe.query.selection import Selection
from tidegate.subscribe.statement.bound_time import bound_time
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.statement import (
    BoundClause,
    NamedRelation,
    SelectQuery,
    SubscribeStatement,
)
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches
from tidegate.subscribe.updates.process_share import ProcessShare
from tidegate.subscribe.updates.relation import TABLE, Relation, Relations

#: The most tables that an error names.
_SHOWN_NAMES: Final = 10


@dataclass(frozen=True, slots=True)
class SubscribePlan:
    """A statement that can be carried out.

    Attributes:
        relation: the table whose rows are read.
        query: the query over these rows; ``None`` if the statement only names the table.
        shape: what the output's rows look like.
        snapshot: whether the rows as of ``as_of`` come first.
        as_of: the time at which the subscription begins; ``None`` if the statement does not say.
        at_least: whether the subscription may begin later than ``as_of``.
        up_to: the time at which the subscription ends; ``None`` if it never ends.
        dialect: the product whose form rows and errors have.
    """

    relation: Relation
    query: SelectQuery | None
    shape: OutputShape
    snapshot: bool = True
    as_of: Timestamp | None = None
    at_least: bool = False
    up_to: Timestamp | None = None
    dialect: Dialect = Dialect.TIDEGATE

    def selection(self, share: ProcessShare | None = None) -> Selection | None:
        """Make the selection of the query, which keeps no rows yet; ``None`` if there is no query.

        ``share`` bounds the memory of the rows that the selection keeps, together with that of the share's
        other users.
        """
        return None if self.query is None else Selection(self.query, self.relation, share)


def plan_subscribe(
    statement: SubscribeStatement,
    relations: Relations,
    now_ns: int,
    dialect: Dialect | str = Dialect.TIDEGATE,
    switches: SubscribeSwitches = ALL_ON,
) -> SubscribePlan:
    """Plan a statement. ``now_ns`` is the wall clock in Unix nanoseconds, for bounds such as ``now()`` and
    ``'-1h'``.

    ``dialect`` may be its name; any other text raises ``SettingsError``.

    Raises ``SubscribeStatementError`` for tables, columns and functions that do not exist, for bounds that
    are no timestamps or cross each other, and for an output that is switched off.
    """
    dialect = read_dialect(dialect)
    switches.require(statement.output)
    subject = statement.subject
    source = statement.source
    relation = find_relation(source, relations)
    query = subject if isinstance(subject, SelectQuery) else None
    columns, types = relation.columns, relation.known_types
    if query is not None:
        selection = Selection(query, relation)
        columns, types = selection.columns, selection.types
    qualifiers = () if query is not None else tuple(source.parts[at:] for at in range(len(source.parts)))
    as_of, up_to = (_time(clause, now_ns) for clause in (statement.as_of, statement.up_to))
    _require_order(statement.as_of, statement.up_to, as_of, up_to)
    return SubscribePlan(
        relation=relation,
        query=query,
        shape=shape_of(columns, statement.output, qualifiers, types, progress=statement.progress),
        snapshot=statement.snapshot,
        as_of=as_of,
        at_least=statement.as_of is not None and statement.as_of.at_least,
        up_to=up_to,
        dialect=dialect,
    )


def _known(relations: Relations) -> str:
    """Return which tables there are, for an error about a table that does not exist."""
    names = sorted(str(each.name) for each in relations if each.kind == TABLE)
    more = f", and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"feeds write {', '.join(names[:_SHOWN_NAMES])}{more}" if names else "no feed writes a table"


def find_relation(named: NamedRelation, relations: Relations) -> Relation:
    """Return the relation that a statement names.

    Raises ``SubscribeStatementError`` if no relation has the name, if several have it, or if the relation is
    no table.
    """
    shown = ".".join(named.parts)
    found = relations.named(named.parts)
    if not found:
        raise StatementFault.UNKNOWN_RELATION.error(
            f"unknown catalog item '{shown}'", named.position, _known(relations)
        )
    if len(found) > 1:
        raise StatementFault.UNKNOWN_RELATION.error(
            f"catalog item '{shown}' is ambiguous: {', '.join(str(each.name) for each in found)}",
            named.position,
            "write the name with its schema and database",
        )
    if found[0].kind != TABLE:
        raise StatementFault.NOT_SUBSCRIBABLE.error(
            f"'{shown}' cannot be subscribed to because it is a {found[0].kind}", named.position
        )
    return found[0]


def require_bounds(as_of: str, up_to: str, *, crossed: bool, position: int = -1) -> None:
    """Raise ``SubscribeStatementError`` (``bounds_crossed``) if ``crossed``. Its text shows ``as_of`` and
    ``up_to``."""
    if crossed:
        raise StatementFault.BOUNDS_CROSSED.error(
            f'subscription lower ("as of") bound is beyond its upper ("up to") bound: {up_to} < {as_of}',
            position,
        )


def _require_order(
    as_of_clause: BoundClause | None,
    up_to_clause: BoundClause | None,
    as_of: Timestamp | None,
    up_to: Timestamp | None,
) -> None:
    if as_of_clause is None or up_to_clause is None or as_of is None or up_to is None:
        return
    require_bounds(
        as_of_clause.text, up_to_clause.text, crossed=as_of > up_to, position=as_of_clause.position
    )


def _time(clause: BoundClause | None, now_ns: int) -> Timestamp | None:
    return None if clause is None else bound_time(clause, now_ns)
