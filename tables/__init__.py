"""The tables of partition state: one in each file.

Each has a local copy in RocksDB and a changelog in Kafka.
"""

from typing import Final

from tables.descriptors import DESCRIPTORS
from tables.feeds import FEEDS
from tables.intents import INTENTS
from tables.ranges import RANGES
from tidegate.worker.state.table import Table

#: Every table of a log partition's state.
TABLES: Final[tuple[Table, ...]] = (RANGES, INTENTS, DESCRIPTORS, FEEDS)
