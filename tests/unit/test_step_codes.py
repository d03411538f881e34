"""A step of a protocol has a letter and a number. docs/protocols/README.md lists the letters."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from stack.places import CHECKOUT

_DOCS: Final = CHECKOUT / "docs"
_LEGEND: Final = _DOCS / "protocols" / "README.md"
#: Where code and its tests are.
_PLACES: Final = ("tidegate", "app", "agents", "tables", "schemas", "pipeline", "sim", "stack", "tests")
_LINE: Final = re.compile(
    r"^\| ([A-Z]|none) \| [^|]+ \| ([^|]+) \| [^|]+ \| ([A-Z]?\d+) \| ([A-Z]?\d+) \|$", re.MULTILINE
)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
#: A step of a page: the first cell of a line of a table.
_STEP: Final = re.compile(r"^\| ((?:[A-Z]\d{1,2}|\d)[a-d]?) \|", re.MULTILINE)
#: A step that is named in words: K2, M2a.
_NAMED: Final = re.compile(r"(?<![\w./+\-'\"$`])([A-Z]\d{1,2}[a-d]?)(?![\w%'\"`]|[./-]\w)")
#: What the text of each module has that names any.
_MAY_NAME: Final = re.compile(r"\b[A-Z]\d")
_IN_CODE: Final = re.compile(r"^```.*?^```$|``[^`]+``|`[^`]*`", re.MULTILINE | re.DOTALL)
_CODES: Final = r"([A-Z]\d{1,2}[a-d]?)(?:(?: to | and )([A-Z]\d{1,2}[a-d]?))?"
#: Words that name steps and the page that has them.
_STEP_OF_PAGE: Final = re.compile(rf"\bsteps? {_CODES} of\s+(docs/[\w/-]+\.md)")
_PAGE_AND_STEP: Final = re.compile(
    rf"(docs/[\w/-]+\.md)(?:#[\w-]+)?`*,\s+(?:steps? )?{_CODES}(?! (?:of|and|to)\b)"
)


class Letter(NamedTuple):
    """A line of the legend, with the paths of its pages. ``letter`` is empty for numbers alone."""

    letter: str
    pages: tuple[str, ...]
    first: str
    last: str


def _relative(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


def legend(text: str) -> list[Letter]:
    """The letters that a legend has, with the pages that it links."""
    return [
        Letter(
            "" if letter == "none" else letter,
            tuple(_relative((_LEGEND.parent / target).resolve()) for target in _LINK.findall(pages)),
            first,
            last,
        )
        for letter, pages, first, last in _LINE.findall(text)
    ]


def _pages() -> Iterator[Path]:
    yield from sorted(_DOCS.rglob("*.md"))


@cache
def steps() -> dict[str, set[str]]:
    """The steps that the tables of each page have.

    A number alone is a step on the pages that the legend gives for it; tables elsewhere count other things.
    """
    counted = {page for letter in _letters() if not letter.letter for page in letter.pages}
    found = {_relative(page): set(_STEP.findall(page.read_text())) for page in _pages()}
    return {
        page: {code for code in codes if letter_of(code) or page in counted} for page, codes in found.items()
    }


@cache
def _letters() -> tuple[Letter, ...]:
    return tuple(legend(_LEGEND.read_text()))


def letter_of(code: str) -> str:
    """The letter of a step, empty for one that is a number alone."""
    return code[0] if code[0].isalpha() else ""


def _words_of_code(path: Path) -> Iterator[str]:
    """The docstrings and comments of a module, without what stands in backticks there."""
    text = path.read_text()
    if _MAY_NAME.search(text) is None:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """Every page, and the words of every module, by path."""
    modules = (file for place in _PLACES for file in sorted((CHECKOUT / place).rglob("*.py")))
    pages = (*_pages(), *sorted(CHECKOUT.glob("*.md")))
    return (
        *((_relative(page), page.read_text()) for page in pages),
        *((_relative(module), "\n".join(_words_of_code(module))) for module in modules),
    )


def named_steps(text: str) -> set[str]:
    """The steps that a text names; blocks of code and words in backticks name none."""
    return set(_NAMED.findall(_IN_CODE.sub("", text)))


def test_no_letter_is_listed_twice() -> None:
    letters = [letter.letter for letter in _letters()]
    assert len(letters) > 20
    assert sorted(letters) == sorted(set(letters))


def test_the_steps_of_a_page_are_of_the_letters_that_the_legend_gives_it() -> None:
    given = {page: {letter.letter for letter in _letters() if page in letter.pages} for page in steps()}
    assert {page: set(map(letter_of, codes)) for page, codes in steps().items()} == given


def test_the_legend_has_the_first_and_the_last_step_of_each_letter() -> None:
    for letter in _letters():
        codes = {code for page in letter.pages for code in steps()[page] if letter_of(code) == letter.letter}
        numbers = sorted({int(re.findall(r"\d+", code)[0]) for code in codes})
        first, last = (f"{letter.letter}{number}" for number in (numbers[0], numbers[-1]))
        assert (letter.first, letter.last) == (first, last)
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), letter


@pytest.mark.long
def test_every_step_that_pages_and_code_name_is_one_of_a_page() -> None:
    known = set().union(*steps().values())
    named = {(path, code) for path, text in _texts() for code in named_steps(text)}
    assert len({path for path, _ in named if path.endswith(".py")}) > 50
    assert {(path, code) for path, code in named if code not in known} == set()


def test_a_step_that_is_named_with_its_page_stands_there() -> None:
    named = [
        (path, page, code)
        for path, text in _texts()
        for page, *codes in (
            *((page, first, last) for first, last, page in _STEP_OF_PAGE.findall(text)),
            *_PAGE_AND_STEP.findall(text),
        )
        for code in codes
        if code
    ]
    assert len(named) > 40
    assert [(path, page, code) for path, page, code in named if code not in steps()[page]] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("the pause begins with K5. C2 follows", {"K5", "C2"}),
        ("steps M2a to M3c (R1)", {"M2a", "M3c", "R1"}),
        ("a bucket of `s3://K9` in ``N1``, Z2.html, 4.2K1", set()),
        ("```\nB6,507\n```", set()),
    ],
)
def test_steps_are_told_from_other_words(text: str, named: set[str]) -> None:
    assert named_steps(text) == named


def test_a_letter_that_the_legend_has_twice_would_be_noticed() -> None:
    line = "| K | a | [slow-sinks](slow-sinks.md) | b | K1 | K6 |\n"
    assert [letter.letter for letter in legend(line * 2)] == ["K", "K"]
    assert legend(line)[0].pages == ("docs/protocols/slow-sinks.md",)
