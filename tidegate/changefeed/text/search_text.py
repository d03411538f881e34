"""TSVECTOR and TSQUERY in the text form that SQL itself prints, without quotes around the whole.

A quote in a lexeme is doubled; a backslash is not escaped. Source: CockroachDB ``pkg/util/tsearch``
(``TSVector.String``, ``TSQuery.String``).
"""

from __future__ import annotations

from typing import Final

from tidegate.rows.types import TsOperand, TsOperation, TsOperator, TsPosition, TsQuery, TsTerm, TsVector

_WEIGHTS: Final = ("", "C", "B", "A")  # D is the default
_PREFIX: Final = 16
#: The weights of an operand, in the order in which they are printed.
_QUERY_WEIGHTS: Final = ((_PREFIX, "*"), (8, "A"), (4, "B"), (2, "C"), (1, "D"))
#: An operator with a higher number binds closer.
_PRECEDENCE: Final = {
    TsOperator.NOT: 4,
    TsOperator.FOLLOWED_BY: 3,
    TsOperator.AND: 2,
    TsOperator.OR: 1,
}
_LOWEST: Final = 0


def tsvector_text(vector: TsVector) -> str:
    """Return a TSVECTOR: ``'fat':2 'rat':3A,7``."""
    return " ".join(map(_term_text, vector.terms))


def tsquery_text(query: TsQuery) -> str:
    """Return a TSQUERY, with the brackets that it needs: ``( 'fat' | 'rat':*A ) & !'cat'``."""
    tokens = iter(query.tokens)
    parts: list[str] = []
    # The pieces that are still to be printed; the last one is the next. A number stands for the next operand
    # or operation of the query: it is the precedence of the operator around it.
    pending: list[str | int] = [_LOWEST]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        token = next(tokens)
        if isinstance(token, TsOperand):
            parts.append(_operand_text(token))
        else:
            pending.extend(reversed(_operation_parts(token, item)))
    return "".join(parts)


def _operation_parts(operation: TsOperation, around: int) -> list[str | int]:
    precedence = _PRECEDENCE[operation.operator]
    parts: list[str | int] = ["!", precedence]
    if operation.operator is not TsOperator.NOT:
        parts = [precedence, f" {_operator_text(operation)} ", precedence]
    return ["( ", *parts, " )"] if precedence < around else parts


def _operator_text(operation: TsOperation) -> str:
    match operation.operator:
        case TsOperator.AND:
            return "&"
        case TsOperator.OR:
            return "|"
        case _:
            return "<->" if operation.distance == 1 else f"<{operation.distance}>"


def _term_text(term: TsTerm) -> str:
    positions = ",".join(map(_position_text, term.positions))
    return _quoted(term.lexeme) + (f":{positions}" if term.positions else "")


def _operand_text(operand: TsOperand) -> str:
    weights = "".join(letter for bit, letter in _QUERY_WEIGHTS if operand.weights & bit)
    return _quoted(operand.lexeme) + (f":{weights}" if weights else "")


def _position_text(place: TsPosition) -> str:
    return f"{place.position or ''}{_WEIGHTS[place.weight]}"


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("'", "''") + "'"
