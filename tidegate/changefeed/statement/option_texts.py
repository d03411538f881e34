"""The forms of options whose text is more than a word: checked, and put into one standard form."""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.definition.names import avro_namespace_fault
from tidegate.changefeed.definition.quoted_value import quoted
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.errors import StatementError

_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_MOST_ROW_BYTES: Final = 1_000_000_000  # as large as a record of librdkafka may be
_ENRICHED_PROPERTIES: Final = ("schema", "source")


def check_namespace(prefix: str, _: int) -> str:
    """Return ``prefix`` if it can be a namespace of Avro. Raises ``StatementError`` for any other text."""
    fault = avro_namespace_fault(prefix)
    if fault:
        raise StatementError(fault)
    return prefix


def check_registry(uri: str, _: int) -> str:
    """Return ``uri`` if it is the URL of a schema registry. Raises ``StatementError`` for any other text."""
    parse_registry_uri(uri)
    return uri


def check_row_bytes(text: str, _: int) -> str:
    """Return ``text`` if it is a number of bytes that a record can have.

    Raises ``StatementError`` for any other text.
    """
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST_ROW_BYTES:
        raise StatementError(
            f"max_row_bytes is {quoted(text)}, and must be a whole number of bytes from 1 to"
            f" {_MOST_ROW_BYTES}"
        )
    return text


def read_enriched_properties(value: str, _: int) -> str:
    """Return the properties in one standard order, each once.

    Raises ``StatementError`` for an unknown one.
    """
    named = {name.strip().lower() for name in value.split(",")} - {""}
    unknown = named.difference(_ENRICHED_PROPERTIES)
    if unknown:
        choices = ", ".join(f"'{choice}'" for choice in _ENRICHED_PROPERTIES)
        raise StatementError(f"unknown enriched_properties; valid values are {choices}")
    return ",".join(sorted(named))
