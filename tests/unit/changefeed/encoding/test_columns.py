"""The columns that a record shows."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import shown_columns


def test_only_the_column_that_is_asked_for_becomes_headers() -> None:
    """A feed that asks for none shows a column without a name as well."""
    first, second = PLAIN.descriptor.columns
    table = replace(PLAIN.descriptor, columns=(first, replace(second, name="")))
    assert [column.name for column in shown_columns(table, FeedOptions())] == ["id", ""]
    assert [column.name for column in shown_columns(table, FeedOptions(headers_json_column_name="id"))] == [
        ""
    ]
