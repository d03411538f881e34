"""Tests what the demos say of the store's moments, in words."""

from __future__ import annotations

import io
import json

import pytest

from examples.demo.board import Board
from examples.demo.happenings import Happening, Kind, happening
from examples.demo.store import print_progress
from sim.realtime import SimProgress
from sim.store.moments import EndedBy, Moment, MomentKind

_MS = 1_000_000


def test_an_abandoned_transaction_is_told_with_how_long_markers_wait() -> None:
    moment = Moment(5, MomentKind.ABANDONED, ("flights",), "ab")
    text = "transaction of table flights abandoned: markers wait until it is pushed, 10 s"
    assert happening(moment, 10.0) == Happening(5, Kind.ABANDONED, text, "ab")


@pytest.mark.parametrize(
    ("ended_by", "what"),
    [
        (EndedBy.PUSH, "was pushed and aborted"),
        (EndedBy.WRITE, "was aborted by a transaction that met its intents"),
        (EndedBy.SCAN, "was aborted by a scan that met its intents"),
        (EndedBy.STOP, "was aborted when the store stopped"),
    ],
)
def test_its_end_is_told_with_who_ended_it_and_how_long_it_took(ended_by: EndedBy, what: str) -> None:
    moment = Moment(20_000 * _MS, MomentKind.ENDED, ("flights", "weather"), "ab", ended_by, 10_150)
    text = f"transaction of tables flights and weather {what} after 10.2 s: markers go on"
    assert happening(moment, 10.0) == Happening(moment.at_ns, Kind.ENDED, text, "ab", 9_850 * _MS)


def test_a_push_that_moves_it_lets_markers_go_on_and_its_end_does_not_any_more() -> None:
    pushed = Moment(2_000 * _MS, MomentKind.PUSHED, ("flights",), "ab", open_ms=1_100)
    text = "transaction of table flights was pushed after 1.1 s: markers go on"
    assert happening(pushed, 1.0) == Happening(pushed.at_ns, Kind.PUSHED, text, "ab", 900 * _MS)
    ended = Moment(6_000 * _MS, MomentKind.ENDED, ("flights",), "ab", EndedBy.PUSH, 5_100, moved=True)
    text = "transaction of table flights was pushed and aborted after 5.1 s"
    assert happening(ended, 1.0) == Happening(ended.at_ns, Kind.ENDED, text, "ab")


def test_markers_that_wait_for_another_transaction_do_not_go_on() -> None:
    ended = Moment(6_000 * _MS, MomentKind.ENDED, ("flights",), "ab", EndedBy.WRITE, 5_000)
    assert happening(ended, 10.0, others=True).text.endswith(
        "after 5.0 s: markers still wait for another one"
    )
    board = Board("x_")
    lines = [
        {"moments": [Moment(1, MomentKind.ABANDONED, ("flights",), txn).fields()]} for txn in ("ab", "cd")
    ]
    lines.append({"moments": [ended.fields(), ended._replace(txn="cd").fields()]})
    counts = dict.fromkeys(("versions", "committed", "aborted", "abandoned", "pushes", "splits", "merges"), 0)
    board.follow_store(io.StringIO("".join(json.dumps({**counts, **line}) + "\n" for line in lines)))
    told = [one.text.rpartition(": ")[2] for one in board.happened[2:]]
    assert told == ["markers still wait for another one", "markers go on"]


def test_splits_and_merges_are_told_with_their_ranges() -> None:
    split = Moment(1, MomentKind.SPLIT, ("flights",), ranges=(3, 9))
    merged = Moment(2, MomentKind.MERGED, ("flights",), ranges=(3, 9))
    assert happening(split, 10.0).text == "range 3 of table flights split: 9 is new"
    assert happening(merged, 10.0).text == "range 9 of table flights merged into 3"
    assert happening(split, 10.0).kind is happening(merged, 10.0).kind is Kind.RANGES


def test_the_board_reads_what_the_store_prints(capsys: pytest.CaptureFixture[str]) -> None:
    moment = Moment(5, MomentKind.ENDED, ("flights",), "ab", EndedBy.PUSH, 10_000)
    print_progress(SimProgress(1.0, 7, 6, 5, 4, 3, 2, 1, 0.0, drained=False, moments=(moment,)))
    board = Board("x_")
    board.follow_store(io.StringIO(capsys.readouterr().out))
    assert (board.versions, board.pushes) == (7, 3)
    assert board.happened == [happening(moment, board.pushed_after_s)]
