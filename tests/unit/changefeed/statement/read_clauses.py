"""Options of a statement as they are read from their clauses, and the sentence where they are refused."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.statement.option_clauses import OptionClause, read_options
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS, Takes
from tidegate.errors import StatementError

REGISTRY = "http://127.0.0.1:8081"
NOW_NS = 1_700_000_000_000_000_000


def clauses(**given: str | None) -> list[OptionClause]:
    return [OptionClause(name, value, 10 * number) for number, (name, value) in enumerate(given.items())]


def read(given: list[OptionClause]) -> FeedOptions:
    return read_options(given, NOW_NS)


def refusal(**given: str | None) -> str:
    with pytest.raises(StatementError) as caught:
        read(clauses(**given))
    return str(caught.value)


#: What an option cannot do without.
COMPANIONS: dict[str, dict[str, str | None]] = {
    "avro_schema_prefix": {"format": "avro", "confluent_schema_registry": REGISTRY},
    "confluent_schema_registry": {"format": "avro"},
    "connect_schema": {"envelope": "upsert"},
    "enriched_properties": {"envelope": "enriched"},
    "key_column": {"unordered": None},
    "max_row_bytes": {"on_oversize": "key_only"},
    "resolved_topic": {"resolved": None},
}


def an_accepted_value(name: str) -> str | None:
    known = KNOWN_OPTIONS[name]
    if known.takes is Takes.NOTHING:
        return None
    if name == "confluent_schema_registry":
        return REGISTRY
    if name == "extra_headers":
        return '{"k": "v"}'
    if name == "enriched_properties":
        return "source"
    if name in ("cursor", "max_row_bytes"):
        return "1"
    return "1s" if known.duration else (*known.choices, "text")[0]
