"""The topic of a feed of one table, and what subscriptions to it give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.unit.changefeed.encoding.avro.tables_of_types import sql_table
from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder, compile_marker
from tidegate.client.subscribe.feed_catalog import relation_of
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.changes.table_changes import TableFollower
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateOpening, GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.subscription import Subscription, SubscriptionSource
from tidegate.subscribe.updates.relation import Relation, Relations

PLACE: Final = FeedPartition("prices", 0)
PRICES: Final = sql_table("prices", ("id",), id="DECIMAL", v="INT8")
WRAPPED: Final = FeedOptions(updated=True)


@dataclass
class Topic:
    """The topic of a feed of one table: rows and markers, in the bytes that the feed writes."""

    table: TableDescriptor = PRICES
    options: FeedOptions = WRAPPED
    records: list[FeedRecord] = field(default_factory=list)
    _schemas: list[str] = field(default_factory=list)

    @property
    def relation(self) -> Relation:
        return relation_of(TableName.of(self.table), [self.table], self.options)

    def plan(self, clauses: str = "", subject: str = "prices") -> SubscribePlan:
        return plan_subscribe(
            parse_subscribe(f"SUBSCRIBE {subject} {clauses}"), Relations([self.relation]), 0
        )

    def commit(self, wall: int, *versions: Row) -> None:
        encoder = compile_encoder(self.table, self.options)
        for version in versions:
            key, value = encoder.encode(version, Timestamp(wall))
            if encoder.schemas is not None:
                assert value is not None
                key = self._framed(encoder.schemas.key.text, key)
                value = self._framed(encoder.schemas.value.text, value)
            self.records.append(FeedRecord(len(self.records), key, value))

    def mark(self, wall: int) -> None:
        encoder = compile_marker(TableName.of(self.table), self.options)
        value = encoder.encode(ResolvedTimestamp(Timestamp(wall)))
        if encoder.schema is not None:
            value = self._framed(encoder.schema.text, value)
        self.records.append(FeedRecord(len(self.records), None, value))

    def gate(self, start: GateStart | None = None, spill: Spill | None = None) -> RowGate:
        decoder = decoder_for(self.options, lambda number: self._schemas[number])
        return RowGate({PLACE.topic: decoder}, [PLACE], start, spill=spill)

    def openings(self, gate: RowGate | None = None) -> list[tuple[GateOpening, dict[FeedPartition, int]]]:
        gate = gate or self.gate()
        found = []
        for record in self.records:
            gate.add_record(PLACE, record)
            while (opening := gate.open()) is not None:
                found.append((opening, dict(gate.offsets())))
        return found

    def subscribed(self, plan: SubscribePlan, as_of: int, *, in_chunks: bool = False) -> list[Any]:
        """The rows of a subscription, without their timestamps."""
        spill = Spill(MemorySpill(), 1, least_opening_bytes=1) if in_chunks else None
        start = GateStart(parts_up_to=Timestamp(as_of if in_chunks else 0))
        source = SubscriptionSource("feed", self.options.diff)
        subscription = Subscription(plan, Timestamp(as_of), source, start=start, chunks=spill)
        rows: list[Any] = []
        for opening, offsets in self.openings(self.gate(start, spill)):
            subscription.begin(opening, offsets)
            while (batch := subscription.following()) is not None:
                rows += batch.rows
        return [row[1:] for row in rows]

    def shared(self, plan: SubscribePlan, as_of: int) -> list[Any]:
        """The rows that a server shows of the table, which several subscriptions share."""
        rows = MemoryKeyRows()
        follower = TableFollower(plan.relation, rows, Timestamp(as_of))
        shown_by = StatementRows(plan, "feed")
        shown: list[Any] = []
        for opening, offsets in self.openings():
            begins = follower.frontier.wall == 0
            changes = follower.follow(opening, offsets)
            if changes is not None and begins:
                shown += shown_by.snapshot(list(rows._rows.values()), follower.frontier).rows
            elif changes is not None:
                shown += shown_by.changes(changes).rows
        return [row[1:] for row in shown]

    def _framed(self, schema: str, body: bytes) -> bytes:
        if schema not in self._schemas:
            self._schemas.append(schema)
        return frame_prefix(self._schemas.index(schema)) + body
