"""Text search in text: the cases of CockroachDB's pkg/util/tsearch, printed from their stored bytes."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given

from tests.conformance.search_literals import tsquery_of, tsvector_of
from tests.unit.rows.searches import tsqueries, tsvectors
from tidegate.changefeed.text.search_text import tsquery_text, tsvector_text
from tidegate.rows.types import TsOperand, TsOperation, TsOperator, TsPosition, TsQuery, TsTerm, TsVector
from tidegate.rows.valueside import text_search

#: From TestParseTSVector.
VECTORS: Final = [
    ("", ""),
    ("foo", "'foo'"),
    ("foo bar", "'bar' 'foo'"),
    ("foo  \nbar   ", "'bar' 'foo'"),
    ("foo:3", "'foo':3"),
    ("foo:03", "'foo':3"),
    ("foo:3a", "'foo':3A"),
    ("foo:3D", "'foo':3"),
    ("foo:20,30b,1a", "'foo':1A,20,30B"),
    ("foo:3a bar:100", "'bar':100 'foo':3A"),
    (":foo", "':foo'"),
    (r"\:", "':'"),
    (r"'\ '", "' '"),
    (r"\\", "'\\'"),
    ("::3", "':':3"),
    ("blah'blah", "'blah''blah'"),
    (r"b\:lah\::3", "'b:lah:':3"),
    ("'bla\\'h'", "'bla''h'"),
    ("'blah'arg:3", "'arg':3 'blah'"),
    ("foo:3,2,1 foo:1,2,3", "'foo':1,2,3"),
    ("a:3 b:2 a:1", "'a':1,3 'b':2"),
    ("foo:100000000", "'foo':16383"),
]
#: From TestParseTSQuery.
QUERIES: Final = [
    ("foo", "'foo'"),
    ("foo:dbaba", "'foo':ABD"),
    ("foo:*", "'foo':*"),
    ("foo:cab*cccdba", "'foo':*ABCD"),
    ("(foo:* | bar:*) & baz", "( 'foo':* | 'bar':* ) & 'baz'"),
    ("blah'blah", "'blah''blah'"),
    (r"b\lah\:", "'blah:'"),
    (r"foo\&bar", "'foo&bar'"),
    ("'b&ar'", "'b&ar'"),
    ("foo<1>bar", "'foo' <-> 'bar'"),
    ("foo<020>bar", "'foo' <20> 'bar'"),
    ("foo<->bar<->baz", "'foo' <-> 'bar' <-> 'baz'"),
    ("foo<->bar&baz|qux", "'foo' <-> 'bar' & 'baz' | 'qux'"),
    ("((foo))", "'foo'"),
    ("!(a | !b)", "!( 'a' | !'b' )"),
    ("!(a | (b & c))", "!( 'a' | 'b' & 'c' )"),
    ("d <0> !x | y", "'d' <0> !'x' | 'y'"),
    ("a <-> (d <0> !x | y)", "'a' <-> ( 'd' <0> !'x' | 'y' )"),
    ("!!a & b", "!!'a' & 'b'"),
    ("!!(a & b)", "!!( 'a' & 'b' )"),
    ("a | (b & c) <-> (d <0> !x | y)", "'a' | ( 'b' & 'c' ) <-> ( 'd' <0> !'x' | 'y' )"),
    ("!(a | (b & c) <-> (d <0> !x | y))", "!( 'a' | ( 'b' & 'c' ) <-> ( 'd' <0> !'x' | 'y' ) )"),
]


@pytest.mark.parametrize(("literal", "text"), VECTORS)
def test_a_document_has_the_text_of_the_source(literal: str, text: str) -> None:
    stored = text_search.encode_tsvector(tsvector_of(literal))
    assert tsvector_text(text_search.tsvector_of(stored)) == text


@pytest.mark.parametrize(("literal", "text"), QUERIES)
def test_a_query_has_the_text_of_the_source(literal: str, text: str) -> None:
    stored = text_search.encode_tsquery(tsquery_of(literal))
    assert tsquery_text(text_search.tsquery_of(stored)) == text


def test_positions_and_weights_that_nobody_writes_are_printed_as_the_source_does() -> None:
    assert tsvector_text(TsVector((TsTerm("x", (TsPosition(0, 3), TsPosition(1, 1))),))) == "'x':A,1C"


@given(query=tsqueries)
def test_the_text_of_a_query_means_the_same_query(query: TsQuery) -> None:
    text = tsquery_text(_without_backslashes(query))
    assert tsquery_text(tsquery_of(text)) == text


@given(vector=tsvectors)
def test_the_text_of_a_document_keeps_its_lexemes(vector: TsVector) -> None:
    plain = TsVector(tuple(term._replace(lexeme=term.lexeme.replace("\\", "")) for term in vector.terms))
    read = tsvector_of(tsvector_text(plain))
    assert {term.lexeme for term in read.terms} == {term.lexeme for term in plain.terms}


def test_a_deep_query_is_printed_all_the_same() -> None:
    depth = 50_000
    nots: list[TsOperation | TsOperand] = [TsOperation(TsOperator.NOT)] * depth
    assert tsquery_text(TsQuery((*nots, TsOperand("a")))) == "!" * depth + "'a'"
    ands: list[TsOperation | TsOperand] = [TsOperation(TsOperator.AND), TsOperand("a")] * depth
    assert tsquery_text(TsQuery((*ands, TsOperand("b")))).endswith("'a' & 'b'")


def _without_backslashes(query: TsQuery) -> TsQuery:
    """The source prints a backslash as it is, and so its text does not read back."""
    return TsQuery(
        tuple(
            token._replace(lexeme=token.lexeme.replace("\\", "")) if isinstance(token, TsOperand) else token
            for token in query.tokens
        )
    )
