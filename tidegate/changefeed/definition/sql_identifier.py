"""Names as SQL text reads them. Source: CockroachDB ``pkg/sql/lexbase`` (``keywords.go``, ``encode.go``)."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import normalize

_BARE: Final = re.compile(r"[a-z_\u0080-\U0010ffff][a-z0-9_$\u0080-\U0010ffff]*")
#: Words that must be quoted when they are names: reserved words, and words that need a second word.
_RESERVED: Final = frozenset(
    """
    all analyse analyze and annotate_type any array as asc asymmetric authorization between bigint bit boolean
    both box2d case cast char character characteristics check coalesce cockroachdb_extra_reserved_keyword
    collate collation column concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user dec decimal default deferrable desc distinct do
    else end except exists extract extract_duration false family fetch float for foreign from full generated
    geography geometry grant greatest group grouping having if iferror ifnull ilike in index initially inner
    int integer intersect interval into is iserror isnull join lateral leading least left like limit localtime
    localtimestamp natural none not nothing notnull null nullif numeric of offset on only or order ordinality
    out outer overlaps overlay placing point polygon position precision primary real references reset
    returning right role row select session_user set similar smallint some string substring symmetric table
    tenant then time timestamp timestamptz timetz to trailing treat trim true union unique user using values
    varbit varchar variadic virtual when where window with work
    """.split()  # noqa: SIM905 - a list of words reads better
)


def sql_identifier(name: str) -> str:
    """Return the name as SQL reads it: quoted unless it is plain, in lower case, and no reserved word."""
    folded = normalize("NFC", name.lower())
    if name == folded and name not in _RESERVED and _BARE.fullmatch(name):
        return name
    return quoted_identifier(name)


def quoted_identifier(name: str) -> str:
    """Return the name in double quotes."""
    return '"' + name.replace('"', '""') + '"'
