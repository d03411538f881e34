"""Feed definitions for tests: from table descriptors to the ``Activate`` message of a feed on these
tables."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedId, FeedTarget, TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows import TableDescriptor
from tidegate.rows.table_key import table_span

WITH_MARKERS = FeedOptions(updated=True, resolved_interval_ns=0)


def activation(
    tables: Iterable[TableDescriptor],
    options: FeedOptions = WITH_MARKERS,
    *,
    start: Timestamp = ZERO,
    feed_id: str = "feed",
    output_partitions: int = 3,
    sink_uri: str = "kafka://127.0.0.1:9",
) -> Activate:
    """A feed on ``tables`` that is ready to run."""
    descriptors = tuple(tables)
    definition = FeedDefinition(
        id=FeedId(feed_id),
        epoch=FIRST_EPOCH,
        description=f"CREATE CHANGEFEED FOR {', '.join(table.name for table in descriptors)}",
        sink_uri=sink_uri,
        tables=tuple(TableName.of(table) for table in descriptors),
        options=options,
        created_ns=0,
    )
    targets = tuple(
        FeedTarget(
            TableName.of(table),
            table.id,
            options.topic_prefix + table.name,
            output_partitions,
            (table_span(table.id),),
        )
        for table in descriptors
    )
    return Activate(definition, start, targets)
