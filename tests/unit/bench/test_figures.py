"""The charts of docs/benchmarks.md: drawn from stored runs, which are what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import figures
from bench.bar_chart import Bar, Chart
from bench.endtoend import Throughput
from bench.formats import FormatResult
from bench.peers.contest import COPY, KERNEL, Contest, PeerRound, results
from bench.report import Report
from bench.spark import SparkCosts, SparkRatio
from bench.stages import StageTime
from bench.wide_steps import WideCost
from stack.places import CHECKOUT

_PAGE = (CHECKOUT / "docs" / "benchmarks.md").read_text()


def _report() -> Report:
    report = Report(seed=1, quick=False)
    report.stages["orders"] = [StageTime("decode", 10.0, 5.0), StageTime("whole step", 40.0, 20.0)]
    report.throughput = [
        Throughput("tidegate worker", "orders", 100, 5.0, 20.0, 50.0),
        Throughput("stock Faust agent", "orders", 20, 5.0, 4.0, None),
        Throughput("raw copy-through", "orders", 20, 5.0, 200.0, None),
    ]
    report.formats = [
        FormatResult("json row", 10, 5.0, 20.0, 0.12345, None),
        FormatResult("raw copy-through", 10, 40.0, 2.0, 1.0, None),
    ]
    ratios = [
        SparkRatio("orders", 1, "copy of log", 0.3, 4.0),
        SparkRatio("orders", 8, "copy of log", 0.1, 4.0),
        SparkRatio("flights", 1, "copy of log", 0.2, 4.0),
    ]
    report.wide = [
        WideCost("off", 10, 1, 9.0, 40.0, 1.0),
        WideCost("on", 10, 1, 2.0, 3.0, 1.0),
        WideCost("on", 100_000, 1, 8.0, 6.0, 2.0),
    ]
    report.spark = SparkCosts(ratios, [], [], [], [], [])
    rounds = {KERNEL: [PeerRound(10, 2.0, 4.0)], COPY: [PeerRound(10, 4.0, 1.0)]}
    report.peers = Contest(results(rounds), [], {})
    return report


@pytest.mark.parametrize("file", figures.charts(figures.load()))
def test_the_charts_of_the_page_are_what_the_stored_runs_give(file: str) -> None:
    assert (figures.PLACE / file).read_text() == figures.charts(figures.load())[file].svg()
    assert f"](benchmarks/{file})" in _PAGE


def test_no_chart_is_left_over() -> None:
    assert {path.name for path in figures.PLACE.glob("*.svg")} == figures.charts(figures.load()).keys()


def test_the_newest_stored_figures_stand_on_the_page() -> None:
    runs = figures.load()
    tables = _PAGE.partition("## Tables")[2]
    numbers = set(re.findall(r"\d+(?:\.\d+)?", tables))
    newest = {
        f"{some[-1]:g}" for chart in ("faust", "peers", "spark") for some in runs.get(chart, {}).values()
    }
    assert newest <= numbers | {f"{float(number):g}" for number in numbers}
    rows = re.findall(r"^\| (JSON|Avro) (\w+)[^|]*\|[^|]*\|[^|]*\| ([\d.]+) \|", tables, re.MULTILINE)
    assert {f"{form.lower()} {name}": float(ratio) for form, name, ratio in rows} == {
        name: round(some[-1], 2) for name, some in runs["formats"].items()
    }


def test_a_run_gives_ratios_and_nothing_for_what_it_did_not_measure() -> None:
    assert figures.measured(_report().to_json()) == {
        "stages": {"decode": 0.25},
        "faust": {"orders, 8 columns": 5.0},
        "formats": {"json row": 0.12345},
        "peers": {"tidegate, kernel": 0.25},
        "spark": {"Spark over its copy of log": 0.3},
        "wide": {"kernel on, 100,000 ranges, 1 feeds": 2.0},
    }
    nothing = figures.measured(Report(seed=1, quick=False).to_json())
    assert not any(nothing.values())
    assert figures.charts(figures.with_run({}, nothing)) == {}


def test_the_newest_run_comes_last_and_the_last_ten_are_kept() -> None:
    runs: figures.Runs = {"formats": {"json row": [float(number) for number in range(10)], "other": [1.0]}}
    more = figures.with_run(runs, figures.measured(_report().to_json()))
    assert more["formats"] == {"json row": [*map(float, range(1, 10)), 0.123], "other": [1.0]}
    assert runs["formats"]["json row"][-1] == 9.0


def test_a_chart_has_the_newest_run_with_the_least_and_the_most_of_all() -> None:
    runs: figures.Runs = {"faust": {"orders, 8 columns": [9.0, 4.0, 5.0]}}
    assert figures.charts(runs)["faust.svg"].bars == (Bar("orders, 8 columns", 5.0, 4.0, 9.0, 3.0),)


def test_what_is_written_is_what_is_loaded(tmp_path: Path) -> None:
    runs = figures.with_run({}, figures.measured(_report().to_json()))
    figures.write(runs, tmp_path)
    assert figures.load(tmp_path) == runs
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "copies.svg",
        "faust.svg",
        "figures.json",
        "peers.svg",
        "stages.svg",
        "wide.svg",
    ]
    assert figures.load(tmp_path / "none") == {}


def test_a_chart_is_xml_with_bars_in_proportion_ranges_and_aims() -> None:
    bars = (Bar("a < b", 2.0, 2.0, 2.0), Bar("c", 1.0, 0.5, 4.0, aim=3.0))
    svg = ElementTree.fromstring(Chart("A & B", "why", bars).svg())
    space = "{http://www.w3.org/2000/svg}"
    first, second = (float(bar.attrib["width"]) for bar in svg.iter(f"{space}rect"))
    assert first == 2 * second
    assert [path.attrib["class"] for path in svg.iter(f"{space}path")] == ["range", "aim", "axis"]
    texts = [text.text for text in svg.iter(f"{space}text")]
    assert texts == ["A & B", "why", "a < b", "2", "c", "1 (0.5 to 4), aim 3"]
