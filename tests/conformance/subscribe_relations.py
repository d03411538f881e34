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


def relations_of(case: Case) -> Relations:
    """The one relation that the case's statement names, with the case's columns.

    What kind of thing it is, no statement says: where the expected error tells, it is that.
    """
    kind = _KIND.search(case.get("expect_error") or "")
    subject = _SUBJECT.match(case["sql"])
    *qualifiers, name = (subject[1] if subject else "rel").lower().split(".")
    database, schema = [*["materialize", "public"][: 2 - len(qualifiers)], *qualifiers][-2:]
    full = TableName(name, schema, database)
    return Relations([Relation(full, tuple(case["columns"]), kind=kind[1] if kind else TABLE)])
