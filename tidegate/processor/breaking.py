"""Reports data that caused an exception nobody foresaw: steps U1 and U2 of docs/security.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tidegate.changefeed.lifecycle.control import control_key
from tidegate.processor.batch import ControlRecord, ExchangeRecord, LogRecord
from tidegate.processor.containment import Input, InputPlace, StepBroke, Unforeseen, unforeseen
from tidegate.processor.feeds.version_rows import PartitionRows, TableRowError
from tidegate.processor.refused import RefusedRecord, RefusedRow, Source
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.raftlog.entry import Offset
from tidegate.rows import encode_descriptor

AnyRecord: TypeAlias = LogRecord | ControlRecord | ExchangeRecord


def broke(error: Exception, input_: Input, records: Sequence[AnyRecord]) -> StepBroke:
    """Return the error to raise for an exception that a step met at one of ``records``, which are not empty.

    Raises ``error`` itself if it is the process's own, such as a full disk, and no fault of the data.
    """
    cause = unforeseen(error)
    first, last = (InputPlace(input_, records[end].offset) for end in (0, -1))
    record = refused_record(input_, records[0], cause) if first == last else None
    return StepBroke(first, last, cause, record)


def refused_record(input_: Input, record: AnyRecord, cause: Unforeseen) -> RefusedRecord:
    """Return the record in the form in which it is kept aside."""
    source, offset = Source[input_.name], int(record.offset)
    if isinstance(record, ControlRecord | ExchangeRecord):
        key, value = _as_it_came(record)
        return RefusedRecord(source, offset, 0, key, value, cause.exception, cause)
    return RefusedRecord(source, offset, record.timestamp, record.key, record.value, cause.exception, cause)


def refused_row(
    error: TableRowError, offset: Offset, feed_id: str, rows: PartitionRows
) -> list[RefusedRecord]:
    """Return the row that failed a feed, to be kept aside, if it met an exception that nobody foresaw."""
    if error.unforeseen is None:
        return []
    version = error.version
    row = RefusedRow(
        feed_id,
        version.timestamp.decimal(),
        version.prev_value,
        _descriptor(error, rows),
    )
    exception, cause = error.unforeseen.exception, str(error)
    return [RefusedRecord(Source.ROW, int(offset), 0, version.key, version.value, exception, cause, row)]


def _as_it_came(record: ControlRecord | ExchangeRecord) -> tuple[bytes | None, bytes | None]:
    """Return key and value of the record; ``None`` for both where the message cannot be encoded again.

    An exception in the encoding must not break a step too.
    """
    try:
        if isinstance(record, ControlRecord):
            return control_key(record.message.feed_id), record.message.to_bytes()
        return encode_exchange(record.message)
    except Exception:
        return None, None


def _descriptor(error: TableRowError, rows: PartitionRows) -> bytes:
    """Return the descriptor of the row's table; empty where none is known."""
    try:
        return encode_descriptor(rows.catalog.at(error.table_id, error.version.timestamp).descriptor)
    except Exception:  # the row may have failed by this very exception
        return b""
