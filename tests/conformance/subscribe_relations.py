"""The relation that a case of SUBSCRIBE is about."""

from __future__ import annotations

import re
from typing import Final

from tests.conformance.case import Case
from tests.conformance.quoted_literals import plain_name
from tidegate.changefeed.definition.feed import TableName
from tidegate.subscribe.updates.relation import TABLE, Relation, Relations

_NAME: Final = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_SUBJECT: Final = re.compile(
    rf"\s*(?:SUBSCRIBE|TAIL)\s+(?:TO\s+)?(?:\(.*?\bFROM\s+)?(?P<name>{_NAME}(?:\.{_NAME})*)",
    re.IGNORECASE | re.DOTALL,
)
_PART: Final = re.compile(_NAME)
_COPY: Final = re.compile(r"\s*COPY\s*\((?P<inner>.*)\)\s*TO\s+STDOUT\b.*", re.IGNORECASE | re.DOTALL)
_DECLARE: Final = re.compile(
    rf"\s*DECLARE\s+{_NAME}\s+(?:\w+\s+)*?CURSOR\s+FOR\s+(?P<inner>.*)", re.IGNORECASE | re.DOTALL
)
_KIND: Final = re.compile(r"cannot be subscribed to because it is an? ([\w ]+)")
_UNKNOWN: Final = re.compile(r"(?:unknown|no_such|missing)_(?:relation|object|table|item|catalog)")


def subscribe_of(case: Case) -> str:
    """The case's SUBSCRIBE, without the COPY or DECLARE around it: those say how rows travel."""
    wrapped = _COPY.fullmatch(case["sql"]) or _DECLARE.fullmatch(case["sql"])
    return str(wrapped["inner"] if wrapped else case["sql"])


def _plain(part: str) -> str:
    """A name in quotes is as it stands, any other in lower case."""
    return plain_name(part) if part.startswith('"') else part.lower()


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
    subject = _SUBJECT.match(subscribe_of(case))
    *qualifiers, name = map(_plain, _PART.findall(subject["name"] if subject else "rel"))
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
