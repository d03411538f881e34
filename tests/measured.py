"""How long each test takes, by the last measured run. By this `make unit` and `make test` leave out long
tests.

The seconds stand in ``measured.txt``: a file, and below it its tests. A test is counted with all of its
cases, as they ran beside others. Quick tests, and new ones, are not listed. To measure anew::

    make test SAMPLE=all PYTEST_ADDOPTS=--junitxml=run.xml
    python -m tests.measured run.xml
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

LIST: Final = Path(__file__).with_suffix(".txt")
#: A test that takes less is not noted. `make unit` takes these alone.
QUICK_S: Final = 0.1
#: `make test` runs one in three of the tests that take ``LONG_S`` or more, and one in six of the longest
#: ones.
LONG_S: Final = 2.0
_LONGEST_S: Final = 10.0


def measured(text: str) -> dict[str, float]:
    """Return the seconds of each test in a list. A test is named without its case: ``tests/a.py::test_b``."""
    seconds: dict[str, float] = {}
    file = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            file = line
            continue
        number, name = line.split()
        seconds[f"{file}::{name}"] = float(number)
    return seconds


def share_of(seconds: float) -> int:
    """Return N for a test that takes so many seconds: one in N runs of `make test` runs it."""
    if seconds >= _LONGEST_S:
        return 6
    return 3 if seconds >= LONG_S else 1


def listed(seconds: Mapping[str, float]) -> str:
    """Return the list of tests that are not quick, in the order of their names."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test, taken in sorted(seconds.items()):
        if taken >= QUICK_S:
            file, _, name = test.partition("::")
            by_file[file].append(f"  {taken:.1f} {name}\n")
    return "".join(f"{file}\n{''.join(lines)}" for file, lines in by_file.items())


def seconds_of(report: Path) -> dict[str, float]:
    """Return the seconds of each test in a report of pytest's ``--junitxml``."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        seconds[f"{file}::{case.attrib['name'].partition('[')[0]}"] += float(case.attrib["time"])
    return seconds


if __name__ == "__main__":
    LIST.write_text(listed(seconds_of(Path(sys.argv[1]))), encoding="utf-8")
