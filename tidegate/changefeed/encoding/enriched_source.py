"""The ``source`` of an enriched record: where its row comes from, and when it was committed.

With ``enriched_properties='source'`` it describes the table. The timestamps that the feed asks for stand in
it in any case: ``updated`` as ``ts_hlc`` and ``ts_ns``, and ``mvcc_timestamp``. Names are CockroachDB's. Some
of CockroachDB's members are left out, since a log does not tell them: ``cluster_id``, ``cluster_name``,
``db_version``, ``job_id``, ``node_id``, ``node_name`` and ``source_node_locality``. A record that is written
again must be an exact copy, so nothing in it is about the process that wrote it.

Source: CockroachDB ``pkg/ccl/changefeedccl/enriched_source_provider.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.rows.descriptor import TableDescriptor

#: A member that is the same for all rows of a table.
SourceValue: TypeAlias = str | int | tuple[str, ...]

TABLE_ID: Final = "crdb_internal_table_id"
PRIMARY_KEYS: Final = "primary_keys"
TS_HLC: Final = "ts_hlc"
TS_NS: Final = "ts_ns"
MVCC_TIMESTAMP: Final = "mvcc_timestamp"
#: The members of ``source`` that describe the table.
CONSTANT_NAMES: Final = frozenset(
    {
        *("changefeed_sink", TABLE_ID, "database_name", "origin"),
        *(PRIMARY_KEYS, "schema_name", "table_name"),
    }
)


def source_constants(table: TableDescriptor, options: FeedOptions) -> dict[str, SourceValue]:
    """Return the members of ``source`` that describe the table.

    There are none unless ``enriched_properties`` has ``source``.
    """
    if not options.enriched_source:
        return {}
    names = {column.id: column.name for column in table.columns}
    return {
        "changefeed_sink": "kafka",
        TABLE_ID: table.id,
        "database_name": table.database,
        "origin": "cockroachdb",
        PRIMARY_KEYS: tuple(names[part.column_id] for part in table.primary_key),
        "schema_name": table.schema,
        "table_name": table.name,
    }


def source_stamps(options: FeedOptions) -> list[str]:
    """Return the names of the row's timestamps in ``source``."""
    asked: Mapping[str, bool] = {
        MVCC_TIMESTAMP: options.mvcc_timestamp,
        TS_HLC: options.updated,
        TS_NS: options.updated,
    }
    return [name for name, wanted in asked.items() if wanted]
