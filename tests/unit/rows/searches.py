"""Documents and queries of text search for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from tidegate.rows.types import (
    TsOperand,
    TsOperation,
    TsOperator,
    TsPosition,
    TsQuery,
    TsTerm,
    TsVector,
)

_Tokens = tuple[TsOperand | TsOperation, ...]

lexemes = st.text(max_size=8)
_positions = st.builds(TsPosition, st.integers(1, 16_383), st.integers(0, 3))
tsvectors = st.lists(st.builds(TsTerm, lexemes, st.lists(_positions, max_size=3).map(tuple)), max_size=4).map(
    lambda terms: TsVector(tuple(terms))
)

_operands: st.SearchStrategy[_Tokens] = st.builds(TsOperand, lexemes, st.integers(0, 31)).map(
    lambda operand: (operand,)
)


def _operations(inner: st.SearchStrategy[_Tokens]) -> st.SearchStrategy[_Tokens]:
    joined = st.sampled_from([TsOperation(TsOperator.AND), TsOperation(TsOperator.OR)]) | st.builds(
        TsOperation, st.just(TsOperator.FOLLOWED_BY), st.integers(0, 16_384)
    )
    binary = st.builds(lambda operation, left, right: (operation, *left, *right), joined, inner, inner)
    return binary | inner.map(lambda operand: (TsOperation(TsOperator.NOT), *operand))


tsqueries = st.recursive(_operands, _operations, max_leaves=6).map(TsQuery)

#: ``'fat':2 'rat':3A,7 'x'``
VECTOR_OF_WORDS = TsVector(
    (TsTerm("fat", (TsPosition(2),)), TsTerm("rat", (TsPosition(3, 3), TsPosition(7))), TsTerm("x"))
)
#: ``'fat':*A & !( 'a' <2> 'b':D )``
QUERY = TsQuery(
    (
        TsOperation(TsOperator.AND),
        TsOperand("fat", 16 | 8),
        TsOperation(TsOperator.NOT),
        TsOperation(TsOperator.FOLLOWED_BY, 2),
        TsOperand("a"),
        TsOperand("b", 1),
    )
)
