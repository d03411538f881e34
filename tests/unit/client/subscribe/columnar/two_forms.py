"""Subscriptions of one table, once with columns and once with rows: what each of them gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, Format
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.client.subscribe.columnar.columnar_changes import columnar_changes
from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.errors import RowError, TidegateError
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource
from tidegate.subscribe.updates.relation import Relation, Relations

PLACE: Final = FeedPartition("t", 0)
DIFFS: Final = "SUBSCRIBE t"
UPSERTS: Final = "SUBSCRIBE t ENVELOPE UPSERT (KEY (id))"


@dataclass(frozen=True, slots=True)
class Given:
    """What a subscription gave: its batches as Arrow tables and as rows, and the error that ended it.

    ``errors`` are of batches that have no form as a table.

    ``columnar`` counts the batches that were columns first.
    """

    tables: list[Any]
    errors: list[str]
    rows: list[list[tuple[Any, ...]]]
    tokens: list[str]
    error: str
    columnar: int


def relation_of(**columns: str) -> Relation:
    """A table whose primary key is ``id``."""
    types = tuple(parse_sql_type(sql) for sql in columns.values())
    return Relation(TableName("t"), tuple(columns), ("id",), types=types)


def plan_of(statement: str, relation: Relation) -> SubscribePlan:
    """The plan of a statement about a table."""
    return plan_subscribe(parse_subscribe(statement), Relations([relation]), now_ns=0)


def given(
    plan: SubscribePlan,
    records: Sequence[tuple[FeedPartition, FeedRecord]],
    *,
    tells_before: bool,
    columnar: bool,
    chunks: Spill | None = None,
) -> Given:
    """Read records to their end; the gate is asked after each of them."""
    make_table = columnar_changes(plan, tells_before=tells_before) if columnar else None
    as_of = plan.as_of or ZERO
    source = SubscriptionSource("feed", tells_before, make_table=make_table)
    subscription = Subscription(plan, as_of, source, chunks=chunks)
    places = list(dict.fromkeys(place for place, _ in records))
    start = GateStart(parts_up_to=ZERO if chunks is None else as_of)
    decoder = JsonDecoder(Envelope.WRAPPED)
    gate = RowGate({place.topic: decoder for place in places}, places, start, spill=chunks)
    shown = BatchColumns.of(plan, Format.JSON)
    result = Given([], [], [], [], "", 0)
    count = 0
    try:
        for place, record in records:
            gate.add_record(place, record)
            while (opening := gate.open()) is not None:
                batch = subscription.advance(opening, gate.offsets())
                while batch is not None:
                    count += not isinstance(batch.rows, tuple)
                    _take(result, batch, shown)
                    batch = subscription.following()
    except TidegateError as error:
        return replace(result, error=str(error), columnar=count)
    return replace(result, columnar=count)


def _take(result: Given, batch: SubscriptionBatch, shown: BatchColumns) -> None:
    try:
        result.tables.append(DeliveredBatch.of(batch, shown).arrow())
    except RowError as error:
        result.errors.append(str(error))
    result.rows.append(list(batch.rows))
    assert len(batch.rows) == len(result.rows[-1])
    result.tokens.append(str(batch.token))


def require_one_result(
    plan: SubscribePlan,
    records: Sequence[tuple[FeedPartition, FeedRecord]],
    *,
    tells_before: bool,
    in_chunks: bool = False,
) -> int:
    """Columns and rows give the same batches and the same error. Return how many were columns first."""
    by_rows, by_columns = (
        given(
            plan,
            records,
            tells_before=tells_before,
            columnar=columnar,
            chunks=Spill(MemorySpill(), 2_000, least_opening_bytes=0) if in_chunks else None,
        )
        for columnar in (False, True)
    )
    assert by_columns.error == by_rows.error
    assert by_columns.errors == by_rows.errors
    assert by_columns.rows == by_rows.rows
    assert by_columns.tokens == by_rows.tokens
    assert [table.schema for table in by_columns.tables] == [table.schema for table in by_rows.tables]
    assert list(map(_told, by_columns.tables)) == list(map(_told, by_rows.tables))
    assert by_rows.columnar == 0
    return by_columns.columnar


def _told(table: Any) -> list[str]:
    """A table's rows. As text NaN is equal to NaN, and -0.0 is not equal to 0.0."""
    table.validate(full=True)
    return list(map(repr, table.to_pylist()))


def records_of(
    values: Sequence[tuple[bytes, bytes]], *, marker: Timestamp
) -> list[tuple[FeedPartition, FeedRecord]]:
    """Records of one partition with these keys and values, and a marker after them."""
    rows = [(PLACE, FeedRecord(offset, *each)) for offset, each in enumerate(values)]
    end = FeedRecord(len(rows), None, f'{{"resolved":"{marker.decimal()}"}}'.encode())
    return [*rows, (PLACE, end)]
