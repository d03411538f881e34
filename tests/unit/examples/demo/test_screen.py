"""Tests what the demo shows, in a terminal and where there is none."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Sequence

import pytest
from rich.console import Console

from examples.demo.board import Board
from examples.demo.screen import Screen
from sim.store.moments import EndedBy, Moment, MomentKind
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
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


def _progress(*moments: Moment, splits: int = 0) -> io.StringIO:
    """A line of the store's."""
    counts = dict.fromkeys(("versions", "committed", "aborted", "abandoned", "pushes", "merges"), 0)
    fields = [moment.fields() for moment in moments]
    return io.StringIO(json.dumps({**counts, "splits": splits, "moments": fields}) + "\n")


def _ago(seconds: float) -> int:
    return time.time_ns() - int(seconds * NANOS_PER_SECOND)


def _in_terminal(board: Board, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a terminal shows of the board in the end, and the lines above it."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=160, height=40, color_system=None)
    monkeypatch.setattr("examples.demo.screen.Console", lambda: console)
    with Screen(board, 60, list) as screen:
        screen.refresh("running")
        screen.refresh("running")
    return shown.getvalue()


def _told(text: str) -> Sequence[str]:
    return [line for line in text.splitlines() if re.match(r" +-?\d+ s  (?!running)", line)]


_ABANDONED = "transaction of table flights abandoned: markers wait until it is pushed, 10 s"
_PUSHED = "transaction of table flights was pushed and aborted after 10.4 s: markers go on"


def test_what_happened_is_said_once_in_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board("demo_")
    with Screen(board, 60, list) as screen:
        board.follow_store(_progress(Moment(_ago(0), MomentKind.ABANDONED, ("flights",), "ab")))
        screen.refresh("running")
        ended = Moment(_ago(0), MomentKind.ENDED, ("flights",), "ab", EndedBy.PUSH, 10_400)
        board.follow_store(_progress(ended))
        board.disturb("worker-1 is killed, and started again")
        screen.refresh("running")
    told = _told(capsys.readouterr().out)
    assert [line.split(" s  ", 1)[1] for line in told] == [
        _ABANDONED,
        _PUSHED,
        "worker-1 is killed, and started again",
    ]


def test_splits_get_no_line_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board("demo_")
    board.follow_store(_progress(Moment(_ago(0), MomentKind.SPLIT, ("flights",), ranges=(3, 9)), splits=1))
    with Screen(board, 60, list) as screen:
        screen.refresh("running")
    assert _told(capsys.readouterr().out) == []


def test_the_terminal_says_what_markers_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board("demo_")
    board.follow_store(
        _progress(
            Moment(_ago(7), MomentKind.ABANDONED, ("flights",), "ab"),
            Moment(_ago(4), MomentKind.ABANDONED, ("weather",), "cd"),
            Moment(_ago(4), MomentKind.ABANDONED, ("weather",), "ef"),
            Moment(_ago(3), MomentKind.PUSHED, ("weather",), "ef", open_ms=1_000),
            Moment(_ago(1), MomentKind.SPLIT, ("flights",), ranges=(3, 9)),
            splits=12,
        )
    )
    shown = _in_terminal(board, monkeypatch)
    assert shown.count(_ABANDONED) == 1
    assert "2 abandoned, the oldest for 7 s" in shown
    assert "12 splits, 0 merges; the last one: range 3 of table flights split: 9 is new" in shown


def test_the_terminal_says_when_markers_wait_for_no_abandoned_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = Board("demo_")
    board.follow_store(
        _progress(
            Moment(_ago(9), MomentKind.ABANDONED, ("flights",), "ab"),
            Moment(_ago(0), MomentKind.ENDED, ("flights",), "ab", EndedBy.PUSH, 9_000),
        )
    )
    shown = _in_terminal(board, monkeypatch)
    assert "no abandoned transaction" in shown
    assert "splits" not in shown
