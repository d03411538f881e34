"""``python -m docsite``: builds ``build/site``. A link, anchor or page that is missing fails the build."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sphinx.cmd.build import build_main

_HERE: Final = Path(__file__).resolve().parent
_CHECKOUT: Final = _HERE.parent
_BUILD: Final = _CHECKOUT / "build"
_STRICT: Final = ("--fail-on-warning", "--keep-going")

#: What a browser fetches by itself when it shows a page: scripts, images, styles and fonts. The address
#: of a link is none of them.
_FETCHED: Final = re.compile(
    r"""(?:\ssrc=["']|<link\b[^>]*\bhref=["']|url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)"""
)


def main() -> int:
    """Build the site of this checkout; return the status of the process."""
    site = _BUILD / "site"
    if status := build(_CHECKOUT, site):
        return status
    if outside := sorted(set(fetched_from_elsewhere(site))):
        print(f"Pages would fetch files from elsewhere: {', '.join(outside)}.", file=sys.stderr)
        return 1
    print(f"The site is in {site.relative_to(_CHECKOUT)}: open {site.relative_to(_CHECKOUT)}/index.html.")
    return 0


def build(checkout: Path, site: Path) -> int:
    """Build the pages of ``checkout`` anew into ``site``; return 0 if nothing is missing.

    What is missing is named on standard error, by page and line.
    """
    shutil.rmtree(site, ignore_errors=True)
    folders = ("-c", _HERE, "-d", site.with_name(f"{site.name}-doctrees"), checkout, site)
    status: int = build_main(["-q", "-b", "html", "-E", "-j", "auto", *_STRICT, *map(str, folders)])
    return status


def fetched_from_elsewhere(site: Path) -> Iterator[str]:
    """Yield addresses outside the site of files that its pages and styles fetch."""
    for file in (*site.rglob("*.html"), *site.rglob("*.css")):
        yield from _FETCHED.findall(file.read_text())


if __name__ == "__main__":
    sys.exit(main())
