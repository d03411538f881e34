"""Tests what a person and a program read of an audit."""

from __future__ import annotations

import json

from tests.unit.verify.streams import at, everywhere, numbered, row
from tidegate.verify import AuditOptions, AuditReport, audit
from tidegate.verify.violation import key_text

TOPICS = {"accounts": 2}


def _report(violation_limit: int = 100) -> AuditReport:
    records = [row(2, at(5)), *everywhere(at(9), TOPICS), row(2, at(7)), row(2, at(8))]
    return audit(numbered(records), TOPICS, AuditOptions(violation_limit=violation_limit), expected=[])


def test_the_text_names_each_rule_and_each_place() -> None:
    assert str(_report(violation_limit=2)).splitlines() == [
        "VIOLATED: the topics break a rule",
        "  3 rows (0 repeated) of 1 keys and 2 markers on 2 partitions",
        "  complete up to 9000000.0000000000",
        "  INVENTED_ROW x 3: every row is a version that the source committed",
        "  LATE_ROW x 2: no unseen row at or below a marker follows it on its partition",
        "    INVENTED_ROW: Offset 0 of accounts[1] holds key [2] updated at 5000000.0000000000, which was"
        " never committed.",
        "    INVENTED_ROW: Offset 2 of accounts[1] holds key [2] updated at 7000000.0000000000, which was"
        " never committed.",
        "    and 3 more",
    ]


def test_the_text_says_what_was_not_checked() -> None:
    text = str(audit(numbered([row(2, at(5))]), TOPICS))
    assert text.startswith("INCOMPLETE: ")
    assert "not checked (LATE_ROW, MARKER_MISSING): there are no markers" in text


def test_the_json_form_holds_the_same() -> None:
    shown = json.loads(json.dumps(_report().as_json()))
    assert shown["verdict"] == "violated"
    assert shown["covered"] == "9000000.0000000000"
    assert shown["violation_counts"] == {"invented_row": 3, "late_row": 2}
    del shown["violations"][2]["sentence"]
    assert shown["violations"][2] == {
        "kind": "late_row",
        "topic": "accounts",
        "partition": 1,
        "offset": 2,
        "key": "[2]",
        "timestamp": "7000000.0000000000",
    }


def test_a_key_that_is_not_text_is_shown_in_hexadecimal() -> None:
    assert key_text(b"\xff\x00") == "0xff00"
