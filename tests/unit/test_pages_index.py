"""Every page can be found from the index of its folder, and every link of a page leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from stack.places import CHECKOUT
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS, SUPPORTED_OPTIONS

_DOCS: Final = CHECKOUT / "docs"
_INDEX: Final = _DOCS / "README.md"
_FOLDERS: Final = ("protocols", "design")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ANCHOR: Final = re.compile(r'<a id="([\w-]+)">')
_CODE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TERM: Final = re.compile(r"\*\*([^*]+)\*\*")


class Link(NamedTuple):
    """A link of a page. Paths are relative to the checkout; ``anchor`` is empty for the top of a page."""

    page: str
    target: str
    anchor: str


def _pages() -> Iterator[Path]:
    yield from sorted(CHECKOUT.glob("*.md"))
    yield from sorted(_DOCS.rglob("*.md"))


def _links(page: Path) -> Iterator[Link]:
    """The page's links to files of the tree; those to elsewhere are not followed."""
    for found in _LINK.findall(_CODE.sub("", page.read_text())):
        if "://" in found or found.startswith("mailto:"):
            continue
        path, _, anchor = found.partition("#")
        target = (page.parent / path).resolve() if path else page
        yield Link(_relative(page), _relative(target), anchor)


def _relative(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


def anchors(text: str) -> set[str]:
    """The anchors of a page: those that it sets, and its headings in the form that links give them."""
    headings = (_ANCHOR.sub("", heading) for heading in _HEADING.findall(_CODE.sub("", text)))
    return {*_ANCHOR.findall(text), *map(_slug, headings)}


def _slug(heading: str) -> str:
    plain = re.sub(r"</?\w+>", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def _broken(link: Link) -> bool:
    target = CHECKOUT / link.target
    return not target.exists() or bool(link.anchor and link.anchor not in anchors(target.read_text()))


@pytest.mark.parametrize(
    "index", [_INDEX, *(_DOCS / folder / "README.md" for folder in _FOLDERS)], ids=_relative
)
def test_every_page_is_linked_from_the_index_of_its_folder(index: Path) -> None:
    linked = {link.target for link in _links(index)}
    pages = {_relative(page) for page in index.parent.glob("*.md")} - {_relative(index)}
    assert pages
    assert pages - linked == set()


def test_every_folder_is_linked_from_the_index() -> None:
    linked = {link.target for link in _links(_INDEX)}
    assert {f"docs/{folder}/README.md" for folder in _FOLDERS} <= linked
    assert {path.name for path in _DOCS.iterdir() if path.is_dir() and any(path.glob("*.md"))} == {*_FOLDERS}


def test_every_link_leads_to_a_file_and_a_heading_that_are_there() -> None:
    links = [link for page in _pages() for link in _links(page)]
    assert any(link.anchor for link in links)
    assert [link for link in links if _broken(link)] == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("# Why is resolved stuck?", "why-is-resolved-stuck"),
        ("## Do the tests notice a slip? `make mutants`", "do-the-tests-notice-a-slip-make-mutants"),
        ('### <a id="last-mutation"></a>What Snapshots tell of it', "last-mutation"),
        ("## LogEntry", "logentry"),
    ],
)
def test_a_heading_has_the_anchor_that_links_give_it(heading: str, anchor: str) -> None:
    assert anchor in anchors(heading)


def test_the_glossary_tells_each_word_once() -> None:
    text = (_DOCS / "glossary.md").read_text()
    terms = [term for line in text.splitlines() if line.startswith("**") for term in _TERM.findall(line)]
    assert len(terms) > 50
    assert sorted({term for term in terms if terms.count(term) > 1}) == []


def test_the_page_of_statements_has_every_option_in_its_place() -> None:
    supported, _, refused = (_DOCS / "statements.md").read_text().partition("## Known and refused")
    in_table = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ([^|]*) \|", supported, re.MULTILINE))))
    assert in_table == set(SUPPORTED_OPTIONS)
    reasons = {
        name: reason
        for names, reason in re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|$", refused, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert reasons == {name: option.refused for name, option in KNOWN_OPTIONS.items() if option.refused}
