"""The navigation of the site: by what one wants, as the index says, and with every page."""

from __future__ import annotations

from pathlib import Path

from docsite.navigation import INDEX, START, Section, below, pages, reached, sections, toctrees
from stack.places import CHECKOUT


def _tree(checkout: Path, **texts: str) -> Path:
    """A checkout with these pages; two underscores in a name stand for a slash."""
    for name, text in texts.items():
        page = checkout / f"{name.replace('__', '/')}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    return checkout


def test_the_navigation_has_every_page() -> None:
    assert len(pages(CHECKOUT)) > 50
    assert pages(CHECKOUT) - reached(CHECKOUT) == set()
    assert reached(CHECKOUT) <= pages(CHECKOUT)


def test_the_navigation_follows_the_index_by_what_one_wants() -> None:
    _, *named = sections(CHECKOUT)
    assert [section.heading for section in named] == ["Learn", "Do", "Look up", "Understand"]
    assert all(section.pages for section in named)
    assert named[0].pages[0] == "docs/first-feed"


def test_a_page_stands_once_in_each_section_that_links_it(tmp_path: Path) -> None:
    do = "## Do\n\n[b](b.md#x), [again](b.md), [c](../C.md)\n"
    index = f"[words](words.md)\n\n## Learn\n\n[a](a.md), [b](b.md)\n\n{do}"
    tree = _tree(tmp_path, README="", C="", docs__README=index, docs__words="", docs__a="", docs__b="")
    assert sections(tree) == [
        Section("", (INDEX, "docs/words")),
        Section("Learn", ("docs/a", "docs/b")),
        Section("Do", ("docs/b", "C")),
    ]
    assert reached(tree) == pages(tree)


def test_the_pages_of_a_folder_stand_below_its_index(tmp_path: Path) -> None:
    inner = "[z](z.md), [y](y.md#part), [out](../a.md)\n"
    texts = {"docs__p__README": inner, "docs__p__y": "", "docs__p__z": "", "docs__a": ""}
    tree = _tree(tmp_path, README="", docs__README="## Do\n\n[p](p/), [a](a.md)\n", **texts)
    assert below("docs/p/README", tree) == ("docs/p/z", "docs/p/y")
    assert below("docs/a", tree) == ()
    assert reached(tree) == pages(tree)


def test_a_page_that_no_index_links_is_not_reached(tmp_path: Path) -> None:
    tree = _tree(
        tmp_path, README="", docs__README="## Do\n\n[elsewhere](https://example.org/a.md)\n", docs__lost=""
    )
    assert pages(tree) - reached(tree) == {"docs/lost"}


def test_the_start_page_gets_a_tree_for_each_section_and_other_pages_none(tmp_path: Path) -> None:
    tree = _tree(tmp_path, README="", docs__README="## Do\n\n[a](a.md)\n", docs__a="")
    assert toctrees(START, tree).count("```{toctree}") == 2
    assert ":hidden:\n:caption: Do\n\n/docs/a\n```" in toctrees(START, tree)
    assert toctrees(INDEX, tree) == toctrees("docs/a", tree) == ""
