"""The page that `make demo-spark` leaves: what it says of a run is what was sampled."""

from __future__ import annotations

from pathlib import Path

from examples.demo.board import Board, Sample
from examples.demo.spark_page import Loaded, rates, write_page

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


def test_the_board_is_sampled_once_a_second() -> None:
    board = Board("x_")
    for _ in range(3):
        board.sample()
    assert [(sample.at_s, sample.rows, sample.lag_s) for sample in board.samples] == [(0.0, 0, None)]
