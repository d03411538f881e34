"""The strict build of the site: from pages as they are, and not from pages that lack something."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs the extra `docs`")

from docsite.__main__ import build, fetched_from_elsewhere

_INDEX = "# All pages\n\n## Do\n\n* [a page](page.md)\n"
_PAGE = """# A page

See [the start](../README.md), [a part](#a-part-for-every-one), [a place](#place), [code](../code/run.py).

## A part, for *every* one

| a | b |
|---|---|
| <a id="place"></a>c | [the folder](../code/) |

```hex
00 ff
```
"""


def _build(tmp_path: Path, page: str = _PAGE, index: str = _INDEX) -> int:
    checkout = tmp_path / "checkout"
    (checkout / "docs").mkdir(parents=True)
    (checkout / "code").mkdir()
    (checkout / "code" / "run.py").write_text("print()\n")
    (checkout / "README.md").write_text(
        "# Start\n\nSee [a place](docs/page.md#place) of [the pages](docs/).\n"
    )
    (checkout / "docs" / "README.md").write_text(index)
    (checkout / "docs" / "page.md").write_text(page)
    return build(checkout, tmp_path / "site")


@pytest.mark.long
def test_pages_are_built_with_the_links_of_a_code_host(tmp_path: Path) -> None:
    assert _build(tmp_path) == 0
    site = tmp_path / "site"
    page = (site / "docs" / "page.html").read_text()
    assert '<a id="place">' in page
    assert 'href="#place"' in page
    assert 'href="#a-part-for-every-one"' in page
    assert [file.name for file in site.glob("_downloads/*/*")] == ["run.py"]
    assert "the folder" in page
    start = (site / "README.html").read_text()
    assert 'href="docs/page.html#place"' in start
    assert 'href="docs/README.html"' in start
    assert 'url=README.html"' in (site / "index.html").read_text()
    assert list(fetched_from_elsewhere(site)) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("[x](missing.md)", "target not found: 'missing.md'"),
        ("[x](../README.md#missing)", "local id not found in doc 'README': 'missing'"),
        ("[x](#missing)", "target not found: 'missing'"),
        ("[x](../code/missing.py)", "target not found: '../code/missing.py'"),
        ("[x](missing/)", "target not found: 'missing/'"),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_build(
    link: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _build(tmp_path, page=f"{_PAGE}\n{link}\n") == 1
    told = capfd.readouterr().err
    assert "docs/page.md:15" in told
    assert says in told


def test_a_page_outside_the_navigation_fails_the_build(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _build(tmp_path, index="# All pages\n") == 1
    told = capfd.readouterr().err
    assert "page.md" in told
    assert "isn't included in any toctree" in told


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        "<style>@font-face { src: url(https://fonts.example/a.woff2) }</style>",
        '<style>@import "https://fonts.example/b.css";</style>',
    ],
)
def test_what_a_browser_would_fetch_from_elsewhere_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<a href="https://example.org/">a link</a>{text}')
    assert len(list(fetched_from_elsewhere(tmp_path))) == 1
