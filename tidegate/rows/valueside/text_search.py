"""TSVECTOR and TSQUERY in values: counts, then lexemes, each after its length.

Source: CockroachDB pkg/util/tsearch/encoding.go. Counts of terms and tokens have four bytes, positions and
distances have two, all big endian. A position's weight is in its two highest bits.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.byte_strings import utf8
from tidegate.rows.take import take
from tidegate.rows.types import TsOperand, TsOperation, TsOperator, TsPosition, TsQuery, TsTerm, TsVector
from tidegate.rows.valueside.scalars import decode_sized, encode_sized

MAX_POSITION: Final = (1 << 14) - 1
PREFIX: Final = 16  # one of an operand's weights

_WEIGHT_SHIFT: Final = 14
_PREFIX_SHIFT: Final = 4
_OPERAND: Final = 1
_OPERATION: Final = 2
_ANY_WEIGHTS: Final = PREFIX - 1
_LEAST_TERM_BYTES: Final = 3
_PLAIN_OPERATIONS: Final = {
    operator.value: TsOperation(operator, 0)
    for operator in TsOperator
    if operator is not TsOperator.FOLLOWED_BY
}


def encode_tsvector(vector: TsVector) -> bytes:
    """Encode a document's lexemes. Raises `EncodingError` for a position or weight out of range."""
    return len(vector.terms).to_bytes(4, "big") + b"".join(map(_encode_term, vector.terms))


def tsvector_of(data: bytes) -> TsVector:
    """Undo `encode_tsvector`; ``data`` holds nothing else. Raises `EncodingError` when malformed."""
    count, position = _uint(data, 0, 4)
    if count * _LEAST_TERM_BYTES > len(data):
        raise EncodingError(f"a TSVECTOR of {len(data)} bytes announces {count} lexemes")
    terms = []
    for _ in range(count):
        term, position = _decode_term(data, position)
        terms.append(term)
    _require_end(data, position, "TSVECTOR")
    return TsVector(tuple(terms))


def encode_tsquery(query: TsQuery) -> bytes:
    """Encode a query's tokens. Raises `EncodingError` when operators and operands do not fit together."""
    _require_whole(query)
    return len(query.tokens).to_bytes(4, "big") + b"".join(map(_encode_token, query.tokens))


def tsquery_of(data: bytes) -> TsQuery:
    """Undo `encode_tsquery`; ``data`` holds nothing else. Raises `EncodingError` when malformed."""
    count, position = _uint(data, 0, 4)
    if count * 2 > len(data):
        raise EncodingError(f"a TSQUERY of {len(data)} bytes announces {count} tokens")
    tokens: list[TsOperand | TsOperation] = []
    for _ in range(count):
        token, position = _decode_token(data, position)
        tokens.append(token)
    _require_end(data, position, "TSQUERY")
    query = TsQuery(tuple(tokens))
    _require_whole(query)
    return query


def _encode_term(term: TsTerm) -> bytes:
    positions = b"".join(map(_encode_position, term.positions))
    return encode_sized(term.lexeme.encode()) + len(term.positions).to_bytes(2, "big") + positions


def _encode_position(place: TsPosition) -> bytes:
    if not 0 <= place.position <= MAX_POSITION or not 0 <= place.weight <= 3:
        raise EncodingError(f"a lexeme cannot stand at {place.position} with weight {place.weight}")
    return (place.weight << _WEIGHT_SHIFT | place.position).to_bytes(2, "big")


def _decode_term(data: bytes, position: int) -> tuple[TsTerm, int]:
    lexeme, position = decode_sized(data, position)
    count, position = _uint(data, position, 2)
    stored, end = take(data, position, 2 * count)
    numbers = [int.from_bytes(stored[at : at + 2], "big") for at in range(0, len(stored), 2)]
    positions = tuple(TsPosition(number & MAX_POSITION, number >> _WEIGHT_SHIFT) for number in numbers)
    return TsTerm(utf8(lexeme, 0), positions), end


def _encode_token(token: TsOperand | TsOperation) -> bytes:
    if isinstance(token, TsOperand):
        head = (_OPERAND, token.weights & _ANY_WEIGHTS, token.weights >> _PREFIX_SHIFT)
        return bytes(head) + encode_sized(token.lexeme.encode())
    distance = token.distance.to_bytes(2, "big") if token.operator is TsOperator.FOLLOWED_BY else b""
    return bytes((_OPERATION, token.operator)) + distance


def _decode_token(data: bytes, position: int) -> tuple[TsOperand | TsOperation, int]:
    (kind,), position = take(data, position, 1)
    if kind == _OPERAND:
        (weights, prefix), position = take(data, position, 2)
        if weights > _ANY_WEIGHTS or prefix > 1:
            raise EncodingError(f"a TSQUERY has a lexeme of weights {weights} and prefix {prefix}")
        lexeme, end = decode_sized(data, position)
        return TsOperand(utf8(lexeme, 0), weights | prefix << _PREFIX_SHIFT), end
    (code,), position = take(data, position, 1)
    plain = _PLAIN_OPERATIONS.get(code) if kind == _OPERATION else None
    if plain is not None:
        return plain, position
    if kind != _OPERATION or code != TsOperator.FOLLOWED_BY.value:
        raise EncodingError(f"a TSQUERY has a token of kind {kind}, {code}")
    distance, end = _uint(data, position, 2)
    return TsOperation(TsOperator.FOLLOWED_BY, distance), end


def _require_whole(query: TsQuery) -> None:
    """Require that every operator has its operands, and that nothing follows the last operand."""
    open_places = 1
    for token in query.tokens:
        if not open_places:
            break
        open_places -= 1
        if isinstance(token, TsOperation):
            open_places += 1 if token.operator is TsOperator.NOT else 2
    else:
        if not open_places:
            return
    raise EncodingError(f"the {len(query.tokens)} tokens of a TSQUERY are not one expression")


def _require_end(data: bytes, position: int, what: str) -> None:
    if position != len(data):
        raise EncodingError(f"{len(data) - position} bytes follow a {what}")


def _uint(data: bytes, position: int, size: int) -> tuple[int, int]:
    number, end = take(data, position, size)
    return int.from_bytes(number, "big"), end
