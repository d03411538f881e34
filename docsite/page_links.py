"""Links that a code host follows and MyST does not know: to HTML anchors, and to folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

from docsite.navigation import pages

_ANCHOR: Final = re.compile(r'<a id="([\w-]+)">')


class HtmlAnchors(SphinxTransform):
    """Makes ``<a id="room"></a>`` a place that ``#room`` and ``page.md#room`` lead to.

    MyST looks for the targets of both links among the slugs of the page's headings. This class adds the
    page's anchors to these slugs. The anchor itself is in the HTML already.
    """

    default_priority = 870  # MyST resolves the links within a page at 879

    def apply(self, **_: Any) -> None:
        slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        self.document.myst_slugs = slugs
        for html in self.document.findall(nodes.raw):
            for anchor in _ANCHOR.findall(html.astext()):
                slugs[anchor] = (html.line, anchor, "")


class FolderLinks(SphinxTransform):
    """Makes a link to a folder lead to the folder's index. Without an index only the link's text stays.

    The site has no listings of folders. A link to a folder that is not there is left to MyST, which refuses
    it.
    """

    default_priority = 870

    def apply(self, **_: Any) -> None:
        checkout = Path(self.env.srcdir)
        known = pages(checkout)
        for link in list(self.document.findall(pending_xref)):
            folder = (checkout / self.env.docname).parent / link["reftarget"]
            if link["reftype"] != "myst" or link["refdomain"] or not folder.is_dir():
                continue
            index = (folder.resolve().relative_to(checkout) / "README").as_posix()
            if index in known:
                link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", index, None
            else:
                link.replace_self(link.children)
