"""Sphinx's settings for the site.

The source is the whole checkout, so that links among pages are as written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pygments.lexers import TextLexer
from sphinx.application import Sphinx

from docsite.navigation import START, toctrees
from docsite.page_links import FolderLinks, HtmlAnchors

_CHECKOUT = Path(__file__).resolve().parents[1]

project = "tidegate"
root_doc = START
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md"]
#: Folders without pages: Sphinx does not walk through environments and data.
exclude_patterns = [path.name for path in _CHECKOUT.iterdir() if path.is_dir() and path.name != "docs"]

myst_heading_anchors = 6  # every heading is an anchor, spelled as code hosts spell it
nitpicky = True  # a reference that leads nowhere is a warning, and a warning fails the build

html_theme = "furo"
html_title = "tidegate"
html_extra_path = ["entry"]  # index.html, which leads to the start page
html_copy_source = False
html_use_index = False  # the pages define no terms for one
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Register what the pages need beyond MyST."""
    app.add_transform(HtmlAnchors)
    app.add_transform(FolderLinks)
    app.add_lexer("hex", TextLexer)  # the language of examples in bytes
    app.connect("source-read", _append_navigation)


def _append_navigation(app: Sphinx, page: str, source: list[Any]) -> None:
    source[0] += toctrees(page, Path(app.srcdir))
