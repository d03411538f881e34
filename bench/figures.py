"""The figures of docs/benchmarks.md as charts: what `make bench` measured, over runs.

``docs/benchmarks/figures.json`` has the last runs of each figure, the newest last. A chart shows the newest,
with the least and the most of all. The charts have ratios: they hold while the machine's speed does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.bar_chart import Bar, Chart
from bench.endtoend import RAW_COPY
from bench.peers.contest import COPY
from stack.places import CHECKOUT

PLACE: Final = CHECKOUT / "docs" / "benchmarks"
STORED: Final = "figures.json"

_KEPT_RUNS: Final = 10
_DIGITS: Final = 3
_WHOLE: Final = "whole step"
#: The log whose stages, and whose micro-batches on Spark, are shown.
_SHOWN_LOG: Final = "orders"
_COLUMNS: Final = {"orders": "orders, 8 columns", "flights": "flights, 19 columns"}
_OVER_FAUST: Final = "over stock Faust agent"
_FAUST_AIM: Final = 3.0
_SPARK_AIM: Final = 0.5
_WIDE_AIM: Final = 1.2

#: The runs of each figure, by chart.
Runs: TypeAlias = dict[str, dict[str, list[float]]]
Measured: TypeAlias = dict[str, dict[str, float]]


def measured(results: Mapping[str, Any]) -> Measured:
    """Return the figures of one run, from what ``Report.to_json`` gives. Figures that the run did not measure
    are left out."""
    return {
        "stages": _stages(results),
        "faust": {
            log: results["ratios"][ratio]
            for name, log in _COLUMNS.items()
            if (ratio := f"{name}: {_OVER_FAUST}") in results["ratios"]
        },
        "formats": {
            found["format"]: found["over_copy"] for found in results["formats"] if found["format"] != RAW_COPY
        },
        "peers": _peers(results),
        "spark": _spark(results),
        "wide": _wide(results),
    }


def with_run(runs: Runs, new: Measured) -> Runs:
    """Return the runs with one more; the oldest of more than ten are dropped."""
    charts = {chart: dict(figures) for chart, figures in runs.items()}
    for chart, figures in new.items():
        for name, value in figures.items():
            known = charts.setdefault(chart, {}).get(name, [])
            charts[chart][name] = [*known, float(f"{value:.{_DIGITS}g}")][-_KEPT_RUNS:]
    return charts


def charts(runs: Runs) -> dict[str, Chart]:
    """Return the charts by their files, in the order of the page."""
    drawn = {
        "stages.svg": Chart(
            "Stages of the step",
            "each stage timed by itself, over the whole step; together they are more than 1",
            _bars(runs, "stages"),
        ),
        "faust.svg": Chart(
            "The worker over stock Faust",
            "rows a second over those of a Faust agent that forwards the same records",
            _bars(runs, "faust", _FAUST_AIM),
        ),
        "peers.svg": Chart(
            "The same job on other software",
            "rows for a second of processor time, over those of a raw copy, which keeps no state",
            _bars(runs, "peers"),
        ),
        "copies.svg": Chart(
            "Over a copy of the same records",
            "rows a second over those of a copy that does not look into them",
            (*_bars(runs, "formats"), *_bars(runs, "spark", _SPARK_AIM)),
        ),
        "wide.svg": Chart(
            "A row among many ranges and feeds",
            "processor time of the step, over that of a row among ten ranges with one feed",
            _bars(runs, "wide", _WIDE_AIM),
        ),
    }
    return {file: chart for file, chart in drawn.items() if chart.bars}


def load(place: Path = PLACE) -> Runs:
    """Return the stored runs; none if there is no file yet."""
    file = place / STORED
    stored: Runs = json.loads(file.read_text()) if file.exists() else {}
    return stored


def write(runs: Runs, place: Path = PLACE) -> None:
    """Store the runs, and draw the charts."""
    place.mkdir(parents=True, exist_ok=True)
    (place / STORED).write_text(json.dumps(runs, indent=1) + "\n")
    draw(place)


def draw(place: Path = PLACE) -> None:
    """Draw the charts of the stored runs."""
    for file, chart in charts(load(place)).items():
        (place / file).write_text(chart.svg())


def _bars(runs: Runs, chart: str, aim: float | None = None) -> tuple[Bar, ...]:
    figures = runs.get(chart, {})
    return tuple(Bar(name, some[-1], min(some), max(some), aim) for name, some in figures.items())


def _stages(results: Mapping[str, Any]) -> dict[str, float]:
    times = {found["stage"]: found["us_per_row"] for found in results["stages"].get(_SHOWN_LOG, ())}
    whole = times.pop(_WHOLE, 0.0)
    return {stage: us_per_row / whole for stage, us_per_row in times.items()} if whole else {}


def _peers(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratio of the copy's processor time to that of each other contender; empty if the copy was
    not measured."""
    found = (results["peers"] or {}).get("results", [])
    cpu_us = {each["contender"]: each["cpu_us_per_row"] for each in found}
    copy_us = cpu_us.pop(COPY, None)
    return {name: copy_us / each for name, each in cpu_us.items()} if copy_us else {}


def _wide(results: Mapping[str, Any]) -> dict[str, float]:
    found = results.get("wide", ())
    return {
        f"kernel {cost['kernel']}, {cost['ranges']:,} ranges, {cost['feeds']:,} feeds": cost["of_first"]
        for cost in found
        if (cost["ranges"], cost["feeds"]) != (found[0]["ranges"], found[0]["feeds"])
    }


def _spark(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratios for the log in a single micro-batch, which is the first case in the results."""
    ratios = (results["spark"] or {}).get("ratios", [])
    first = [found for found in ratios if (found["log"], found["batches"]) == (ratios[0]["log"], 1)]
    return {f"Spark over its {found['copy']}": found["rate"] for found in first}
