"""Cases of markers on a topic of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.contract.case import Case, World
from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.lifecycle.control import Activate

_AVRO: Final = replace(WITH_MARKERS, format=Format.AVRO, confluent_schema_registry="http://registry")
_SPARSE: Final = replace(WITH_MARKERS, envelope=Envelope.ROW, resolved_interval_ns=3_000_000_000)


def _aside(world: World) -> None:
    """Two tables with different partition counts are in one feed: in JSON, in Avro, and with few markers. One
    of the tables is also in feeds with markers among its rows, in JSON and in Avro."""
    tables = [world.table(), world.table("k STRING, n INT", key="k")]
    ranges = [world.range(table.span) for table in tables]
    for second in range(1, 12):
        ranges[0].apply(tables[0].put(second, second % 7, f"v{second}"), close=second)
        ranges[1].apply(tables[1].put(second, f"k{second % 5}", second), close=second - 1)
    ranges[1].heartbeat(11)
    for name, options in (("json", WITH_MARKERS), ("avro", _AVRO), ("sparse", _SPARSE)):
        world.run([_feed(world, name, options, *tables)])
    world.feed(tables[1], topics="among-")
    world.feed(tables[1], topics="avro-among-", options=_AVRO)


def _feed(world: World, name: str, options: FeedOptions, *tables: HandTable) -> Activate:
    """Return a feed whose two topics of rows have three and five partitions."""
    prefix = f"aside{world.number}-{name}-"
    options = replace(options, topic_prefix=prefix, resolved_topic=f"{prefix}markers")
    feed = activation(
        (table.descriptor for table in tables), options, feed_id=f"case{world.number}-aside-{name}"
    )
    three, five = feed.targets
    return replace(feed, targets=(three, replace(five, partitions=5)))


CASES: Final = (Case("markers on a topic of their own", _aside),)
