"""The ``source`` of a Debezium record: its members that are the same for all rows of a table."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.rows.descriptor import TableDescriptor

#: The version of the form of ``source``, not of the program: a record that is made again after an upgrade
#: must be an exact copy.
SOURCE_VERSION: Final = "1"
CONNECTOR: Final = "tidegate"
#: All members of ``source``.
SOURCE_NAMES: Final = frozenset(
    {
        *("connector", "db", "name", "schema", "snapshot", "table", "version"),
        *("ts_hlc", "ts_ms", "ts_ns"),
    }
)


def source_texts(table: TableDescriptor, options: FeedOptions, *, scanned: bool = False) -> dict[str, str]:
    """Return the texts in a table's ``source``; ``ts_hlc``, ``ts_ms`` and ``ts_ns`` come from each row.

    ``name`` is what Debezium calls the logical server: the feed's topic prefix, or without one the
    connector's name. ``scanned`` says whether the rows are those of a scan; ``snapshot`` shows it.
    """
    return {
        "connector": CONNECTOR,
        "db": table.database,
        "name": options.topic_prefix or CONNECTOR,
        "schema": table.schema,
        "snapshot": "true" if scanned else "false",
        "table": table.name,
        "version": SOURCE_VERSION,
    }
