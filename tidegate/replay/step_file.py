"""The file of a written step: an Avro file that any Avro reader opens.

It has one record for each row of state and for each record of the log, in this order. Its metadata says which
step it is. Keys and values are those of the log, so the file is as secret as the log.
"""

from __future__ import annotations

import io
from typing import Any, Final, NoReturn

import fastavro

from tidegate.errors import InputError
from tidegate.processor.batch import StateTable
from tidegate.replay.written_step import StepRecord, WrittenStep

#: The number of the file's form. A reader refuses a file with another number.
FORMAT: Final = 1
#: Members of the file's metadata, all of them whole numbers in decimal.
_MEMBERS: Final = ("tidegate.step", "tidegate.partition", "tidegate.partitions", "tidegate.first")
_SCHEMA: Final = fastavro.parse_schema(
    [
        {
            "type": "record",
            "name": "StateRow",
            "namespace": "tidegate.step",
            "fields": [
                {"name": "table", "type": "string"},
                {"name": "key", "type": "bytes"},
                {"name": "value", "type": "bytes"},
            ],
        },
        {
            "type": "record",
            "name": "LogRecord",
            "namespace": "tidegate.step",
            "fields": [
                {"name": "offset", "type": "long"},
                {"name": "timestamp", "type": "long"},
                {"name": "key", "type": ["null", "bytes"]},
                {"name": "value", "type": ["null", "bytes"]},
            ],
        },
    ]
)


def encode_step(step: WrittenStep) -> bytes:
    """Return the file of a step."""
    rows = (
        ("tidegate.step.StateRow", {"table": table.value, "key": key, "value": value})
        for (table, key), value in step.rows.items()
    )
    records = (("tidegate.step.LogRecord", record._asdict()) for record in step.records)
    numbers = (FORMAT, step.partition, step.partitions, step.first)
    metadata = dict(zip(_MEMBERS, map(str, numbers), strict=True))
    out = io.BytesIO()
    fastavro.writer(out, _SCHEMA, [*rows, *records], codec="deflate", metadata=metadata)
    return out.getvalue()


def decode_step(data: bytes) -> WrittenStep:
    """Read the file of a step. Raises ``InputError`` for other files, and for steps in another form."""
    try:
        reader = fastavro.reader(io.BytesIO(data))
        metadata: Any = reader.metadata
        format_, partition, partitions, first = (int(metadata[member]) for member in _MEMBERS)
    except Exception as error:  # for a file of another kind the reader of Avro raises errors of many kinds
        _refuse(error)
    if format_ != FORMAT:
        raise InputError(
            f"The step is written in format {format_}, and this version of tidegate reads {FORMAT}: use the "
            "version that wrote it"
        )
    if not 0 <= partition < partitions:
        raise InputError(f"The file has a step of partition {partition} of a log of {partitions} partitions")
    rows: dict[tuple[StateTable, bytes], bytes] = {}
    records: list[StepRecord] = []
    try:
        for each in reader:
            found: Any = each
            if "table" in found:
                rows[StateTable(found["table"]), found["key"]] = found["value"]
            else:
                records.append(StepRecord(found["offset"], found["key"], found["value"], found["timestamp"]))
    except Exception as error:  # see above
        _refuse(error)
    return WrittenStep(partition, partitions, first, rows, tuple(records))


def _refuse(error: Exception) -> NoReturn:
    cause = f"{type(error).__name__}: {error}"[:200]
    raise InputError(
        f"The file is not a step that `tidegate debug step --save` wrote, or it is damaged ({cause})"
    ) from None
