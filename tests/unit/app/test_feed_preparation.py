"""What a feed needs before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.processor.schemed import schemed_options
from tidegate.changefeed.encoder import marker_schemas

_TABLE: Final = HandTable.of(104, "plain")
_FEED: Final = activation([_TABLE.descriptor], schemed_options("feed-"), feed_id="feed").definition
_JSON: Final = activation([_TABLE.descriptor], feed_id="json").definition


def test_only_a_feed_with_markers_among_schemed_rows_has_schemas_of_markers() -> None:
    without = replace(_FEED.options, resolved_interval_ns=None)
    assert marker_schemas(replace(_FEED, options=without)) == []
    assert marker_schemas(_JSON) == []
    aside = replace(_FEED.options, resolved_topic="aside")
    assert marker_schemas(replace(_FEED, options=aside)) == []


def test_the_schema_of_each_tables_markers_is_its_values_subject() -> None:
    assert [schema.subject for schema in marker_schemas(_FEED)] == ["feed-plain-value"]
