"""TSVECTOR and TSQUERY as SQL spells them, by the rules of CockroachDB's pkg/util/tsearch."""

from __future__ import annotations

import re
from typing import Final

from tidegate.rows import TsOperand, TsOperation, TsOperator, TsPosition, TsQuery, TsTerm, TsVector

_MAX_POSITION: Final = 16_383
_MAX_POSITIONS: Final = 256
_QUOTED: Final = r"'(?:[^'\\]|\\.|'')*'"
_PLACES: Final = r"\d+[A-D]?(?:,\d+[A-D]?)*"
_TERM: Final = re.compile(
    rf"\s*(?:(?P<quoted>{_QUOTED})|(?P<bare>(?:\\.|[^\s\\'])(?:\\.|[^\s\\:])*))(?::(?P<places>{_PLACES}))?",
    re.IGNORECASE | re.DOTALL,
)
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<operator>[&|!()]|<(?:-|\d+)>)|(?:(?P<quoted>{_QUOTED})"
    r"|(?P<bare>(?:\\.|[^\s\\'&|!()<:])(?:\\.|[^\s\\&|!()<:])*))(?::(?P<weights>[A-D*]+))?)",
    re.IGNORECASE | re.DOTALL,
)
_PRECEDENCE: Final = {TsOperator.OR: 1, TsOperator.AND: 2, TsOperator.FOLLOWED_BY: 3, TsOperator.NOT: 4}

_Tokens = tuple[TsOperand | TsOperation, ...]


def tsvector_of(text: str) -> TsVector:
    """The lexemes of a TSVECTOR, sorted. Raises ``ValueError`` for a text that is none."""
    found: dict[str, dict[int, int]] = {}
    for match in _matches(_TERM, text):
        places = found.setdefault(_lexeme(match), {})
        for place in match["places"].split(",") if match["places"] else ():
            position = min(int(place.rstrip("ABCDabcd")), _MAX_POSITION)
            weight = "DCBA".find(place[-1].upper()) if place[-1].isalpha() else 0
            places[position] = max(weight, places.get(position, 0))
    terms = []
    for lexeme in sorted(found, key=str.encode):
        positions = [TsPosition(*place) for place in sorted(found[lexeme].items())]
        terms.append(TsTerm(lexeme, tuple(positions[:_MAX_POSITIONS])))
    return TsVector(tuple(terms))


def tsquery_of(text: str) -> TsQuery:
    """The tokens of a TSQUERY. Raises ``ValueError`` for a text that is none."""
    pending = [_token(match) for match in _matches(_TOKEN, text)][::-1]
    tokens = _expression(pending, 0)
    if pending:
        raise ValueError(f"{text!r} is no TSQUERY")
    return TsQuery(tokens)


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    matches, position = [], 0
    while text[position:].strip():
        match = pattern.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"{text!r} is no text search at offset {position}")
        matches.append(match)
        position = match.end()
    return matches


def _lexeme(match: re.Match[str]) -> str:
    quoted, bare = match["quoted"], match["bare"]
    text = bare if quoted is None else quoted[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _token(match: re.Match[str]) -> str | TsOperand:
    if match["operator"]:
        return str(match["operator"])
    weights = {1 << "DCBA*".index(letter) for letter in (match["weights"] or "").upper()}
    return TsOperand(_lexeme(match), sum(weights))


def _expression(pending: list[str | TsOperand], least: int) -> _Tokens:
    """Operators of one precedence take what is right of them first, as in the source."""
    left = _operand(pending)
    while pending and isinstance(pending[-1], str):
        operation = _operation(pending[-1])
        if operation is None or _PRECEDENCE[operation.operator] < least:
            break
        pending.pop()
        left = (operation, *left, *_expression(pending, _PRECEDENCE[operation.operator]))
    return left


def _operand(pending: list[str | TsOperand]) -> _Tokens:
    if not pending:
        raise ValueError("a TSQUERY ends where a lexeme should stand")
    token = pending.pop()
    if isinstance(token, TsOperand):
        return (token,)
    if token == "!":
        operation = TsOperation(TsOperator.NOT)
        return (operation, *_expression(pending, _PRECEDENCE[TsOperator.NOT]))
    inner = _expression(pending, 0) if token == "(" else ()
    if not inner or not pending or pending.pop() != ")":
        raise ValueError(f"{token!r} stands in a TSQUERY where a lexeme should")
    return inner


def _operation(token: str) -> TsOperation | None:
    if token in "&|":
        return TsOperation(TsOperator.AND if token == "&" else TsOperator.OR)
    if token.startswith("<"):
        return TsOperation(TsOperator.FOLLOWED_BY, 1 if token == "<->" else int(token[1:-1]))
    return None
