"""The page that `make demo-spark` leaves: what it says of a run is what was sampled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from examples.demo.board import Board, Mark, Sample
from examples.demo.happenings import Kind
from examples.demo.spark_page import Loaded, plot, rates, write_page

_SAMPLES = [Sample(0.0, 0, None), Sample(1.0, 50, 4.0), Sample(3.0, 250, 2.5)]


def test_rates_are_rows_a_minute_between_samples() -> None:
    assert rates(_SAMPLES) == [(1.0, 3_000.0), (3.0, 6_000.0)]
    assert rates(_SAMPLES[:1]) == []


def test_the_page_has_the_plot_the_verdict_and_each_table(tmp_path: Path) -> None:
    tables = [Loaded("board_<flights>", 1_234, 6, 0), Loaded("board_weather", 5, 6, 7)]
    page = write_page(tmp_path, _SAMPLES, tables, passed=False)
    text = page.read_text()
    assert (tmp_path / "report.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert 'src="report.png"' in text
    assert "250 rows came out. The audit FAILED." in text
    assert "<td>board_&lt;flights&gt;</td><td>1,234</td><td>6</td><td>0</td>" in text
    assert "<td>board_weather</td><td>5</td><td>6</td><td>7</td>" in text
    assert "The audit passed." in write_page(tmp_path, [], tables, passed=True).read_text()


_WAIT = "transaction of table <flights> abandoned: markers wait until it is pushed, 10 s"
_MARKS = [
    Mark(-9.0, Kind.ABANDONED, "before the feed ran", None),
    Mark(0.5, Kind.ENDED, "markers go on", -9.0),
    Mark(1.0, Kind.ABANDONED, _WAIT, None),
    Mark(1.5, Kind.RANGES, "a split", None),
    Mark(1.6, Kind.RANGES, "a merge", None),
    Mark(2.0, Kind.ENDED, "markers go on again", 1.0),
    Mark(9.0, Kind.DISTURBED, "after the last sample", None),
]


def test_the_plot_marks_what_happened_and_its_legend_names_each_kind_once() -> None:
    figure = plot(_SAMPLES, _MARKS)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        Kind.ABANDONED.value,
        "markers wait for it",
        Kind.ENDED.value,
        Kind.RANGES.value,
    ]
    _, lag = figure.axes
    assert lag.get_xlim() == (0.0, 3.0)
    places = [np.unique(line.get_xdata()) for line in lag.lines]
    assert [at_s for (at_s, *others) in places if not others] == [0.5, 1.0, 1.5, 1.6, 2.0]
    shades = [shade.get_path().get_extents(shade.get_patch_transform()) for shade in lag.patches]
    assert [(shade.x0, shade.x1) for shade in shades] == [(0.0, 0.5), (1.0, 2.0)]
    assert plot(_SAMPLES).legends == []


def test_the_page_tells_what_happened(tmp_path: Path) -> None:
    text = write_page(tmp_path, _SAMPLES, [], _MARKS, passed=True).read_text()
    assert "<li>1 s: transaction of table &lt;flights&gt; abandoned: markers wait" in text
    assert "<li>2 s: markers go on again</li>" in text
    assert "<li>2 times a range was split, or two were merged</li>" in text
    assert "a split" not in text
    assert "<li>nothing</li>" in write_page(tmp_path, _SAMPLES, [], passed=True).read_text()


def test_what_happened_is_on_the_axis_of_the_samples() -> None:
    board = Board("x_")
    board.sample()
    board.disturb("the broker is killed")
    (mark,) = board.marks()
    assert 0 <= mark.at_s < 60
    assert mark == (mark.at_s, Kind.DISTURBED, "the broker is killed", None)


def test_the_board_is_sampled_once_a_second() -> None:
    board = Board("x_")
    for _ in range(3):
        board.sample()
    assert [(sample.at_s, sample.rows, sample.lag_s) for sample in board.samples] == [(0.0, 0, None)]
