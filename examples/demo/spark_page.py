"""What a demo on Spark leaves for people: a plot, and a page around it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.figure import Figure

from examples.demo.board import Sample

_PLOT: Final = "report.png"
_PAGE: Final = "report.html"
_MINUTE_S: Final = 60.0


class Loaded(NamedTuple):
    """A table of the warehouse: its rows at the last closed bucket, and over all ``buckets`` how many
    versions are other ones than the store's."""

    topic: str
    rows: int
    buckets: int
    differing: int


def write_page(directory: Path, samples: Sequence[Sample], tables: Sequence[Loaded], *, passed: bool) -> Path:
    """Write the plot and the page into the directory, and return the page."""
    _plot(samples).savefig(directory / _PLOT, dpi=120)
    page = directory / _PAGE
    page.write_text(_page(samples, tables, passed=passed))
    return page


def rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Rows a minute, by the seconds at which each pair of samples ends."""
    return [
        (later.at_s, (later.rows - earlier.rows) / (later.at_s - earlier.at_s) * _MINUTE_S)
        for earlier, later in pairwise(samples)
    ]


def _plot(samples: Sequence[Sample]) -> Figure:
    figure = Figure(figsize=(9, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    counted = rates(samples)
    above.fill_between([at for at, _ in counted], [rate for _, rate in counted], step="pre", color="#2a7f9e")
    above.set_ylabel("rows a minute")
    marked = [(sample.at_s, sample.lag_s) for sample in samples if sample.lag_s is not None]
    below.plot([at for at, _ in marked], [lag for _, lag in marked], color="#b5472f")
    below.set_ylabel("marker lag, seconds")
    below.set_ylim(bottom=0)
    below.set_xlabel("seconds since the feed ran")
    return figure


def _page(samples: Sequence[Sample], tables: Sequence[Loaded], *, passed: bool) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(table.topic)}</td><td>{table.rows:,}</td><td>{table.buckets}</td>"
        f"<td>{table.differing:,}</td></tr>"
        for table in tables
    )
    emitted = samples[-1].rows if samples else 0
    verdict = "passed" if passed else "FAILED"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Flights through Spark</title>
<style>
body {{ font: 16px sans-serif; margin: 2em auto; max-width: 60em }}
img {{ width: 100% }}
td, th {{ padding: .2em 1em; text-align: right }}
td:first-child, th:first-child {{ text-align: left }}
</style>
</head><body><h1>Flights through Spark</h1>
<p>{emitted:,} rows came out. The audit {verdict}.</p>
<img src="{_PLOT}" alt="Rows a minute, and how far markers were behind">
<table><tr><th>table</th><th>rows</th><th>closed buckets</th><th>versions that differ</th></tr>
{rows}
</table></body></html>
"""
