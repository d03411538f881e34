"""The relation that a case of SUBSCRIBE is about."""

from __future__ import annotations

import re
from typing import Final

from tests.conformance.case import Case
from tidegate.changefeed.definition.feed import TableName
from tidegate.subscribe.updates.relation import TABLE, Relation, Relations

_SUBJECT: Final = re.compile(
    r"\s*(?:SUBSCRIBE|TAIL)\s+(?:TO\s+)?(?:\(.*?\bFROM\s+)?([\w$.]+)", re.IGNORECASE | re.DOTALL
)
_KIND: Final = re.compile(r"cannot be subscribed to because it is an? ([\w ]+)")
_UNKNOWN: Final = re.compile(r"(?:unknown|no_such|missing)_(?:relation|object|table|item|catalog)")


def relations_of(case: Case) -> Relations:
    """The one relation that the case's statement names, with the case's columns.

    What kind of thing it is, and whether it is there at all, no statement says: it is as the expected error
    tells.
    """
    code, text = str(case.get("error_code") or ""), str(case.get("expect_error") or "")
    if _UNKNOWN.search(code):
        return Relations([])
    kind = _KIND.search(text)
    without_rows = "subscribed to because" in text or "subscribable" in code
    subject = _SUBJECT.match(case["sql"])
    *qualifiers, name = (subject[1] if subject else "rel").lower().split(".")
    database, schema = [*["materialize", "public"][: 2 - len(qualifiers)], *qualifiers][-2:]
    return Relations(
        [
            Relation(
                TableName(name, schema, database),
                tuple(case["columns"]),
                kind=kind[1] if kind else "sink" if without_rows else TABLE,
            )
        ]
    )
