"""Types of columns, and datums of each that are at the ends of what it holds."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from tests.unit.rows.strategies import SEASONS
from tidegate.rows import (
    Box2D,
    Interval,
    Json,
    Kind,
    SqlType,
    TimeTz,
    TsOperand,
    TsOperation,
    TsOperator,
    TsQuery,
    TsTerm,
    TsVector,
)
from tidegate.rows.types import TsPosition

_POINT: Final = bytes.fromhex("0101000000000000000000f03f0000000000000040")
_COLLECTION: Final = bytes.fromhex("010700000001000000") + bytes.fromhex(
    "0101000000000000000000f03f000000000000f07f"
)
_SHAPES: Final = (_POINT, _COLLECTION)

SAMPLES: Final[Mapping[Kind, tuple[Any, ...]]] = {
    Kind.BOOL: (True, False),
    Kind.INT: (0, -1, 2**63 - 1, -(2**63)),
    Kind.FLOAT: (0.0, float("nan"), float("inf"), 1e308, 5e-324),
    Kind.DECIMAL: (
        *(Decimal("1.50"), Decimal("NaN"), Decimal("-Infinity")),
        *(Decimal("1E+100000"), Decimal("0E-1999"), Decimal("1E-100000")),
    ),
    Kind.STRING: ("x", '\u2028"\\', ""),
    Kind.COLLATED_STRING: ("x", ""),
    Kind.ENUM: ("spring", "autumn"),
    Kind.BYTES: (b"\0\xff", b""),
    Kind.UUID: (uuid.UUID(int=5),),
    Kind.INET: (ipaddress.ip_interface("1.2.3.4/8"), ipaddress.ip_interface("::1/3")),
    Kind.DATE: (0, 2**63 - 1, -(2**63), 10**9),
    Kind.TIME: (0, 86_400 * 10**6),
    Kind.TIMETZ: (TimeTz(5, -3600),),
    Kind.TIMESTAMP: (0, 10**22, -(10**22)),
    Kind.TIMESTAMPTZ: (10**18,),
    Kind.INTERVAL: (Interval(1, -2, 3), Interval(2**63 - 1, -(2**63), 5)),
    Kind.BIT: ("", "1" * 65),
    Kind.JSONB: (Json({"a": [Decimal("1E+400"), None, "x"]}), Json(None), Json([[], {}, [Decimal(-1)]])),
    Kind.OID: (5, -5),
    Kind.PG_LSN: (2**64 - 1,),
    Kind.BOX2D: (Box2D(1.0, 2.0, float("nan"), 4.0),),
    Kind.GEOMETRY: _SHAPES,
    Kind.GEOGRAPHY: _SHAPES,
    Kind.TSVECTOR: (TsVector((TsTerm("a", (TsPosition(1, 2),)),)),),
    Kind.TSQUERY: (TsQuery((TsOperation(TsOperator.FOLLOWED_BY, 3), TsOperand("a", 3), TsOperand("b"))),),
    Kind.VECTOR: ((1.0, 2.5), ()),
}

_ALONE: Final = (
    *(SqlType(kind) for kind in SAMPLES if kind not in (Kind.ENUM, Kind.COLLATED_STRING)),
    SEASONS,
    SqlType(Kind.COLLATED_STRING, locale="de"),
    SqlType(Kind.DECIMAL, 10, 3),
    SqlType(Kind.INT, 16),
    SqlType(Kind.FLOAT, 32),
)
#: Every type alone, and in arrays.
TYPES: Final = (*_ALONE, *(SqlType(Kind.ARRAY, element=each) for each in _ALONE))
