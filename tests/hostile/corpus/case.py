"""The cases of the corpus, and the log that each of its entries and rows is written into."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.hand_log import HandLog, HandRange, HandTable, at
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.raftlog.entry import WriteValue
from tidegate.rows.table_key import FAMILY_ZERO
from tidegate.rows.value_frame import seal

JSON: Final = FeedOptions()
AVRO: Final = FeedOptions(format=Format.AVRO, confluent_schema_registry="http://registry")
CONNECT: Final = FeedOptions(envelope=Envelope.UPSERT, connect_schema=True)
_TUPLE: Final = b"\x0a"


class Ends(enum.Enum):
    """The ways in which an input may end."""

    WRITTEN = "its row is written"
    FAILED = "the feed of its table fails"
    QUARANTINED = "its range is quarantined"
    REPORTED = "an incident tells of it"


class Stage:
    """A log with two tables in a range each; the second one is healthy, whatever happens to the first."""

    def __init__(
        self, log: HandLog, tables: tuple[HandTable, HandTable], ranges: tuple[HandRange, HandRange]
    ) -> None:
        self.log = log
        self.table, self.healthy = tables
        self.range, self.other = ranges

    @classmethod
    def alone(cls, columns: str, key: str) -> Stage:
        """Nothing else stands on the log. The hostile table has range 1."""
        log = HandLog(partitions=1)
        tables = HandTable.of(104, "hostile", columns, key), HandTable.of(105, "healthy")
        log.describe(*tables)
        first, second = (log.open_range(number, table.span) for number, table in enumerate(tables, 1))
        return cls(log, tables, (first, second))

    def body(self, body: bytes) -> None:
        """Write a row whose columns after the key are these bytes."""
        key = self.table.key(1)
        self.range.apply(WriteValue(key, at(5), seal(key, _TUPLE + body)))

    def key(self, columns: bytes) -> None:
        """Write a row whose key has these bytes for its columns."""
        key = self.table.span.start + b"\x89" + columns + FAMILY_ZERO
        self.range.apply(WriteValue(key, at(5), seal(key, _TUPLE)))

    def row(self, datum: object) -> None:
        """Write a row with this datum in the column ``v``."""
        self.range.apply(self.table.put(5, 1, datum))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Hostile:
    """An input of the log: a record, or a row in one. ``says`` stands in the sentence about it."""

    name: str
    broke: str
    write: Callable[[Stage], None]
    ends: Ends
    says: str = ""
    columns: str = "id INT, v STRING"
    key: str = "id"
    options: FeedOptions = field(default=JSON)

    def stage(self) -> Stage:
        """A log of its own with the input, and with a row of the healthy table behind it."""
        stage = Stage.alone(self.columns, self.key)
        self.write_to(stage)
        return stage

    def write_to(self, stage: Stage) -> None:
        """Write the input, and a row of the healthy table behind it."""
        self.write(stage)
        stage.other.apply(stage.healthy.put(6, 1, "well"), close=6)
