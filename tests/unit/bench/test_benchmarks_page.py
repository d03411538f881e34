"""docs/benchmarks.md names what `make bench` measures, and README shows figures of this page alone."""

from __future__ import annotations

import re
from typing import Final

from bench.__main__ import main
from stack.places import CHECKOUT

_PAGE: Final = (CHECKOUT / "docs" / "benchmarks.md").read_text()
_README: Final = (CHECKOUT / "README.md").read_text()
_NUMBER: Final = re.compile(r"\d[\d,.]*\d|\d")


def test_the_page_names_every_measurement() -> None:
    (only,) = (parameter for parameter in main.params if parameter.name == "only")
    named = re.findall(r"^\| `([\w-]+)` \| ", _PAGE, re.MULTILINE)
    assert named == list(only.to_info_dict()["type"]["choices"])


def test_the_figures_of_readme_are_those_of_the_page() -> None:
    section = _README.partition("## Three figures")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)
    figures = {figure for _, measured in rows for figure in _NUMBER.findall(measured)}
    assert {"79,478", "46", "72", "679"} <= figures
    table = set(_NUMBER.findall(_PAGE.partition("## Tables")[2]))
    assert figures <= table
