"""The targets that documents, comments and docstrings point to exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import pytest

from stack.places import CHECKOUT

_DOCUMENT: Final = re.compile(r"(?<![\w/-])docs/[\w./-]+\.md")
#: A module with the folder that it is in. Changelog and design notes tell what was.
_MODULE: Final = re.compile(r"`((?:\w+/)+\w+\.py)`")
_PAGE: Final = re.compile(r"(?:README|CONTRIBUTING)\.md|docs/(?:protocols/)?[\w-]+\.md")
_TEST: Final = re.compile(r"(?<![\w/])((?:tests/[\w/]+/)?test_\w+\.py)(?:::(\w+))?")

pytestmark = pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="git lists the files of the tree")

#: Tests that name pages and tests that they make up themselves.
_MADE_UP: Final = ("tests/unit/test_references.py", "tests/unit/docsite/test_site.py")


class Mention(NamedTuple):
    """A place that names a file, and maybe a test in it."""

    where: str
    file: str
    test: str = ""


@cache
def tracked() -> tuple[str, ...]:
    """Every file of the tree, by its path."""
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return tuple(path for path in listed.stdout.splitlines() if (CHECKOUT / path).exists())


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        if path.endswith((".py", ".md")) and path not in _MADE_UP:
            yield path, (CHECKOUT / path).read_text()


def documents_in(text: str) -> list[str]:
    """The documents of ours that the text names; sources in CockroachDB's tree follow on its name."""
    return [
        found[0]
        for found in _DOCUMENT.finditer(text)
        if not text[: found.start()].rstrip().endswith("CockroachDB")
    ]


def is_a_file(path: str) -> bool:
    """Whether a tracked file has this path, or ends with it: pages leave ``tidegate/`` out at times."""
    return any(one == path or one.endswith(f"/{path}") for one in tracked())


def has_test(file: str, name: str) -> bool:
    """Whether a tracked test file of that name, or below that path, has the test."""
    files = [path for path in tracked() if path == file or path.endswith(f"/{file}")]
    return any(not name or f"def {name}(" in (CHECKOUT / path).read_text() for path in files)


def test_every_document_that_is_named_exists() -> None:
    named = [Mention(path, document) for path, text in texts() for document in documents_in(text)]
    assert named
    missing = [mention for mention in named if mention.file not in tracked()]
    assert missing == []


def test_every_test_that_is_named_exists() -> None:
    named = [Mention(path, *found) for path, text in texts() for found in _TEST.findall(text)]
    assert named
    missing = [mention for mention in named if not has_test(mention.file, mention.test)]
    assert missing == []


def test_every_module_that_a_page_names_exists() -> None:
    pages = [(path, text) for path, text in texts() if _PAGE.match(path)]
    named = [Mention(path, module) for path, text in pages for module in _MODULE.findall(text)]
    assert named
    missing = [mention for mention in named if not is_a_file(mention.file)]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("see docs/protocols/batches.md", True),
        ("CockroachDB has it otherwise (docs/log-contract.md)", True),
        ("Source: CockroachDB docs/tech-notes/encoding.md", False),
        ("Source: CockroachDB\ndocs/RFCS/20200331_enums.md", False),
    ],
)
def test_sources_elsewhere_are_told_from_documents_of_ours(text: str, ours: bool) -> None:
    assert bool(documents_in(text)) is ours
