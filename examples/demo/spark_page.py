"""The page that a demo on Spark leaves for people, with a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.demo.board import Mark, Sample
from examples.demo.happenings import Kind

_PLOT: Final = "report.png"
_PAGE: Final = "report.html"
_MINUTE_S: Final = 60.0

#: The lines of the plot at which something happened, and the shade while markers wait.
_LINES: Final = {
    Kind.ABANDONED: ("#b5472f", "--"),
    Kind.PUSHED: ("#3b7a3b", ":"),
    Kind.ENDED: ("#3b7a3b", "-"),
    Kind.RANGES: ("#999999", ":"),
    Kind.DISTURBED: ("#000000", "-."),
}
_WAIT: Final = "markers wait for it"
#: The entries of the legend in their order: a wait's beginning comes before its end.
_LEGEND: Final = (
    Kind.ABANDONED.value,
    _WAIT,
    Kind.PUSHED.value,
    Kind.ENDED.value,
    Kind.RANGES.value,
    Kind.DISTURBED.value,
)
_WAIT_COLOR: Final = "#f0d9a8"


class Loaded(NamedTuple):
    """A table of the warehouse: its rows at the last closed bucket, and how many versions, over all
    ``buckets``, differ from the store's."""

    topic: str
    rows: int
    buckets: int
    differing: int


def write_page(
    directory: Path,
    samples: Sequence[Sample],
    tables: Sequence[Loaded],
    marks: Sequence[Mark] = (),
    *,
    passed: bool,
) -> Path:
    """Write the plot and the page into the directory, and return the page. Both show the ``marks``."""
    plot(samples, marks).savefig(directory / _PLOT, dpi=120)
    page = directory / _PAGE
    page.write_text(_page(samples, tables, marks, passed=passed))
    return page


def rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return a pair for each sample after the first: its ``at_s``, and the rows a minute since the sample
    before."""
    return [
        (later.at_s, (later.rows - earlier.rows) / (later.at_s - earlier.at_s) * _MINUTE_S)
        for earlier, later in pairwise(samples)
    ]


def plot(samples: Sequence[Sample], marks: Sequence[Mark] = ()) -> Figure:
    """Draw rows a minute and marker lag, with a line where something happened and a legend of the lines."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    counted = rates(samples)
    above.fill_between([at for at, _ in counted], [rate for _, rate in counted], step="pre", color="#2a7f9e")
    above.set_ylabel("rows a minute")
    marked = [(sample.at_s, sample.lag_s) for sample in samples if sample.lag_s is not None]
    below.plot([at for at, _ in marked], [lag for _, lag in marked], color="#b5472f")
    below.set_ylabel("marker lag, seconds")
    below.set_ylim(bottom=0)
    below.set_xlabel("seconds since the feed ran")
    end_s = samples[-1].at_s if samples else 0.0
    if end_s:
        below.set_xlim(0, end_s)
    shown = [mark for mark in marks if 0 <= mark.at_s <= end_s]
    for axes in (above, below):
        _mark(axes, shown)
    if shown:
        drawn = dict(zip(*reversed(below.get_legend_handles_labels()), strict=True))
        labels = [name for name in _LEGEND if name in drawn]
        figure.legend(
            [drawn[name] for name in labels], labels, loc="outside lower center", ncols=3, fontsize="small"
        )
    return figure


def _mark(axes: Axes, marks: Sequence[Mark]) -> None:
    """Draw the lines and shades. The first of each kind names it in the legend."""
    named: set[str] = set()

    def once(name: str) -> str:
        shown = "_" if name in named else name  # the legend leaves out names that begin so
        named.add(name)
        return shown

    for mark in marks:
        if mark.began_s is not None:
            begins = max(0.0, mark.began_s)
            axes.axvspan(begins, mark.at_s, color=_WAIT_COLOR, lw=0, zorder=0, label=once(_WAIT))
        color, style = _LINES[mark.kind]
        axes.axvline(mark.at_s, lw=1, color=color, linestyle=style, label=once(mark.kind.value))


def _told(marks: Sequence[Mark]) -> Iterator[str]:
    """Yield a sentence for each thing that happened. Splits and merges are many, and have a sentence in
    common."""
    for mark in marks:
        if mark.kind is not Kind.RANGES:
            yield f"{mark.at_s:.0f} s: {mark.text}"
    if moved := Counter(mark.kind for mark in marks)[Kind.RANGES]:
        yield f"{moved:,} times a range was split, or two were merged"


def _page(samples: Sequence[Sample], tables: Sequence[Loaded], marks: Sequence[Mark], *, passed: bool) -> str:
    told = "\n".join(f"<li>{escape(text)}</li>" for text in _told(marks)) or "<li>nothing</li>"
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
<p>A marker promises that nothing older will come, so it cannot pass a transaction that is open. Most are open
for milliseconds. The store abandons a few on purpose, as if their client had died: marker lag grows until the
feed's engine pushes such a transaction and the store answers. What happened, by seconds
since the feed ran:</p>
<ul>
{told}
</ul>
<table><tr><th>table</th><th>rows</th><th>closed buckets</th><th>versions that differ</th></tr>
{rows}
</table></body></html>
"""
