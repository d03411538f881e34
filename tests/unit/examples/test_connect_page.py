"""docs/connect.md shows the configurations that the tests run, as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.statement.definition import define_feed

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "connect.md").read_text()
CONFIGURATIONS = sorted((ROOT / "examples" / "connect").glob("*.properties"))


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: file.name)
def test_the_page_shows_every_configuration(file: Path) -> None:
    assert f"```properties\n{file.read_text().rstrip()}\n```" in PAGE


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: file.name)
def test_the_feed_that_a_configuration_names_can_be_made(file: Path) -> None:
    comment = " ".join(line.lstrip("# ") for line in file.read_text().splitlines() if line.startswith("#"))
    found = re.search(r"WITH (.*?resolved_topic='\w+')", comment)
    assert found is not None
    statement = f"CREATE CHANGEFEED FOR TABLE items INTO 'kafka://h' WITH {found[1]}"
    form = define_feed(statement, FeedId("f"), 1).definition.options
    assert file.name == f"items-{form.format.value}-{form.envelope.value}.properties"
