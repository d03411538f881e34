"""Gives a record that was kept aside to the decoders of this version, and does nothing else with it."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.lifecycle.control import read_control_record
from tidegate.errors import InputError, StateError
from tidegate.processor.containment import unforeseen
from tidegate.processor.refused import RefusedRecord, RefusedRow, Source
from tidegate.processor.state.exchange_codec import read_exchange_record
from tidegate.raftlog.decode import decode_entry
from tidegate.rows import TableCodec, decode_descriptor

_SHOWN_CHARACTERS: Final = 20_000


def decoded_again(record: RefusedRecord) -> str:
    """Return a sentence about the attempt to decode the record, with the decoded content if there is one."""
    if record.key is None and record.value is None:
        return "Its bytes are not kept, so there is nothing to decode."
    try:
        found = _decoded(record)
    except (InputError, StateError) as error:
        return f"It is refused by name: {error}"
    except Exception as error:
        try:
            return f"It meets an exception that nobody foresaw: {unforeseen(error)}."
        except Exception:
            return f"It meets an exception that nobody foresaw: {error!r}."
    text = found if len(found) <= _SHOWN_CHARACTERS else f"{found[:_SHOWN_CHARACTERS]}..."
    return f"It is decoded, so what broke came later:\n{text}"


def _decoded(record: RefusedRecord) -> str:
    match record.source:
        case Source.LOG:
            return repr(decode_entry(record.key, record.value))
        case Source.CONTROL:
            return repr(read_control_record(record.key, record.value or b""))
        case Source.HAND_OFFS:
            return repr(read_exchange_record(record.key, record.value or b""))
        case Source.ROW:
            assert record.row is not None
            return _row(record.key or b"", record.value or b"", record.row)


def _row(key: bytes, value: bytes, row: RefusedRow) -> str:
    """Return the row, and the row that it replaced if there is one."""
    if not row.descriptor:
        raise InputError("no descriptor of its table was at hand when it was kept.")
    codec = TableCodec(decode_descriptor(row.descriptor))
    lines = [repr(codec.decode(key, value))]
    if row.previous is not None:
        lines.append(f"before: {codec.decode(key, row.previous)!r}")
    return "\n".join(lines)
