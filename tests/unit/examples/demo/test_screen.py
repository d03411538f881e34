"""What the demo shows where there is no terminal."""

from __future__ import annotations

import re
import time

import pytest

from examples.demo.board import Board
from examples.demo.screen import Screen
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.record import JsonDecoder
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.verify import TopicRecord

_LAG_S = 3


def _board_with_a_row_and_a_marker() -> Board:
    board = Board("demo_")
    marked = f'{{"resolved":"{time.time_ns() - _LAG_S * NANOS_PER_SECOND}.0000000000"}}'
    records = [
        TopicRecord("demo_flights", 2, 7, b"[1]", b'{"after": {"id": 1}}', 0),
        TopicRecord("demo_flights", 2, 8, None, marked.encode(), 0),
    ]
    board.follow_topics(records, lambda _: JsonDecoder(Envelope.WRAPPED))
    return board


def test_a_plain_line_has_the_lags_the_last_row_and_the_last_marker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    board = _board_with_a_row_and_a_marker()
    with Screen(board, 60, lambda: [(5, 0.42), (3, 0.1)]) as screen:
        screen.refresh("running")
    figures, row, marker = capsys.readouterr().out.rstrip("\n").split(" | ")
    assert re.search(rf"1 rows out \(\d+/s\), 1 markers, resolved lag: feed {_LAG_S}\.\d\d s", figures)
    assert figures.endswith("ranges r5 0.42 s  r3 0.10 s")
    assert row == 'flights[2]@7 [1] -> {"after": {"id": 1}}'
    assert marker.startswith("flights[2]@8 resolved ")


def test_a_plain_line_says_what_is_not_known_yet(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(Board("demo_"), 60, list) as screen:
        screen.refresh("running")
    assert capsys.readouterr().out.endswith("resolved lag: feed -, ranges -\n")
