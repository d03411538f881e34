"""The list of the tests that take long: it names tests that there are, and is read as it was written."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.measured import LIST, LONG_S, QUICK_S, listed, measured, seconds_of, share_of

_ROOT = Path(__file__).parents[2]
_NAMES = st.from_regex(r"tests/[a-z]{1,3}\.py::test_[a-z]{1,3}", fullmatch=True)


def test_the_list_names_tests_that_there_are() -> None:
    of_file: dict[str, set[str]] = {}
    for test in measured(LIST.read_text(encoding="utf-8")):
        file, _, name = test.partition("::")
        of_file.setdefault(file, set()).add(name)
    gone = [
        f"{file}::{name}"
        for file, names in of_file.items()
        for name in sorted(names - _tests_of(_ROOT / file))
    ]
    assert gone == [], "take them out of tests/measured.txt, or write their new names there"


def _tests_of(file: Path) -> set[str]:
    return {*re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))} if file.exists() else set()


@given(seconds=st.dictionaries(_NAMES, st.integers(0, 50).map(lambda tenths: tenths / 10)))
def test_a_list_is_read_as_it_was_written(seconds: dict[str, float]) -> None:
    assert measured(listed(seconds)) == {test: taken for test, taken in seconds.items() if taken >= QUICK_S}


def test_a_test_is_counted_with_all_of_its_cases(tmp_path: Path) -> None:
    cases = [
        ("other.a.test_b", "test_c[1]", "0.5"),
        ("other.a.test_b", "test_c[2]", "2"),
        ("other.d", "test_e", "9"),
    ]
    written = "".join(
        f'<testcase classname="{file}" name="{name}" time="{time}"/>' for file, name, time in cases
    )
    report = tmp_path / "run.xml"
    report.write_text(f"<testsuites><testsuite>{written}</testsuite></testsuites>", encoding="utf-8")
    assert seconds_of(report) == {"other/a/test_b.py::test_c": 2.5, "other/d.py::test_e": 9.0}


def test_long_is_more_than_not_quick() -> None:
    assert LONG_S > QUICK_S


def test_every_run_takes_what_is_quick_and_the_longest_tests_have_their_turn_least_often() -> None:
    assert [share_of(seconds) for seconds in (0, 1.9, 2, 9.9, 10, 600)] == [1, 1, 3, 3, 6, 6]
