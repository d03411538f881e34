"""The navigation of the site, read from the indexes that the pages have anyway.

``docs/README.md`` sorts the pages by what one wants: learn, do, look up, understand. Each of these headings
is a section of the navigation, and has the pages that the index links there, in its order. A folder of pages
has an index of its own, ``docs/protocols/README.md`` for instance: the pages that it links stand below it.

A page is named as Sphinx names it: its path in the checkout, without ``.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: The first page of the site, and the index of all pages.
START: Final = "README"
INDEX: Final = "docs/README"

_HEADING: Final = re.compile(r"^## +(.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


class Section(NamedTuple):
    """A heading of the index with the pages that it links, each once; the heading may be empty."""

    heading: str
    pages: tuple[str, ...]


def pages(checkout: Path) -> set[str]:
    """Return all pages: those at the top of the tree, and those of ``docs/``."""
    files = (*checkout.glob("*.md"), *checkout.glob("docs/**/*.md"))
    return {_name(file, checkout) for file in files}


def sections(checkout: Path) -> list[Section]:
    """Return the sections of the navigation, in the order of the index.

    The first has no heading: it has the index itself, and the pages that it links above its headings.
    """
    index = checkout / f"{INDEX}.md"
    first, *parts = _HEADING.split(index.read_text())
    pairs = zip(parts[::2], parts[1::2], strict=True)
    named = [Section(heading.strip(), tuple(_linked(text, index, checkout))) for heading, text in pairs]
    return [Section("", (INDEX, *_linked(first, index, checkout))), *named]


def below(page: str, checkout: Path) -> tuple[str, ...]:
    """Return the pages that stand below ``page``.

    If it is the index of a folder, these are the pages of the folder that it links. Otherwise there are none.
    """
    file = checkout / f"{page}.md"
    if file.stem != "README" or page in {START, INDEX}:
        return ()
    linked = _linked(file.read_text(), file, checkout)
    return tuple(found for found in linked if Path(found).parent == Path(page).parent)


def reached(checkout: Path) -> set[str]:
    """Return the pages that the navigation has."""
    shown = {START, *(page for section in sections(checkout) for page in section.pages)}
    return shown.union(*(below(page, checkout) for page in shown))


def toctrees(page: str, checkout: Path) -> str:
    """Return what the site appends to ``page`` for the navigation; a reader of the page does not see it.

    The start page has the sections, the index of a folder has the pages below it.
    """
    if page == START:
        return "".join(_toctree(section.pages, section.heading) for section in sections(checkout))
    inside = below(page, checkout)
    return _toctree(inside) if inside else ""


def _toctree(entries: tuple[str, ...], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "", "```{toctree}", *options, "", *(f"/{entry}" for entry in entries), "```", ""])


def _linked(text: str, file: Path, checkout: Path) -> Iterator[str]:
    """Yield the pages that ``text`` of ``file`` links, each once; a folder stands for its index."""
    targets = ((file.parent / target).resolve() for target in _LINK.findall(text) if "://" not in target)
    found = (target / "README.md" if target.is_dir() else target for target in targets)
    others = (page for page in found if page.suffix == ".md" and page.exists() and page != file)
    yield from dict.fromkeys(_name(page, checkout) for page in others)


def _name(file: Path, checkout: Path) -> str:
    return file.relative_to(checkout).with_suffix("").as_posix()
