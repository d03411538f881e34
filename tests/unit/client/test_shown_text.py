"""Text of others, as a terminal may show it."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tidegate.client.shown_text import shown_event, shown_lines, shown_text

_CONTROLS = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"]


def test_every_control_character_is_escaped_but_tabs_and_in_texts_of_lines_their_ends() -> None:
    kept = {control for control in _CONTROLS if shown_text(control) == control}
    assert kept == {"\t"}
    assert {control for control in _CONTROLS if shown_lines(control) == control} == {"\t", "\n"}
    assert shown_text("a\x1b[2J\n\x9b\x7f") == r"a\u001b[2J\u000a\u009b\u007f"


@given(st.text(st.characters(codec="utf-8")))
def test_other_characters_stay_and_text_of_json_keeps_its_value(text: str) -> None:
    printable = "".join(letter for letter in text if letter not in _CONTROLS)
    assert shown_text(printable) == shown_lines(printable) == printable
    for ascii_only in (True, False):
        assert json.loads(shown_lines(json.dumps(text, ensure_ascii=ascii_only))) == text


def test_a_line_of_a_log_is_shown_part_by_part() -> None:
    event = {"event": "a\x1b\nb", "exception": "trace\n  of \x9b", "count": 3, "names": ["\x1b"]}
    assert shown_event(None, "", event) == {
        "event": "a\\u001b\nb",
        "exception": "trace\n  of \\u009b",
        "count": 3,
        "names": ["\x1b"],
    }
