"""Reads Avro records back, for consumers, for the audit and for ``tail``."""

from __future__ import annotations

from typing import Any, Final

from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.encoding.avro.decode import AvroReader
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.encoding.quoted import quoted_error, quoted_record
from tidegate.changefeed.encoding.record import (
    Headers,
    MarkerRecord,
    Record,
    RowRecord,
    SchemaText,
    oversize_record,
)
from tidegate.changefeed.encoding.value_members import ANY_ROW
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, parse_decimal

_RESOLVED: Final = "resolved"


class AvroDecoder:
    """Reads the Avro records of one feed.

    Columns have the values that ``AvroReader`` gives them. If the options are not the ``whole`` options of
    the feed, records may have any member of their envelope.
    """

    __slots__ = ("_envelope", "_oversize", "_read_row", "fields", "row_keys", "tombstones", "value_members")

    def __init__(self, options: FeedOptions, schema_text: SchemaText, *, whole: bool = True) -> None:
        form = form_of(options.envelope)
        codec = form.avro
        left_out = options.on_oversize is OnOversize.KEY_ONLY or not whole
        self._envelope = options.envelope
        self._read_row = None if codec is None else codec.read
        self._oversize = left_out and form.may_leave_out
        self.fields = AvroReader(schema_text).read
        self.row_keys = not options.key_column
        self.tombstones = form.tombstones
        self.value_members = (
            ANY_ROW if codec is None else codec.members(options) if whole else codec.any_members
        )

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """Read one record. Raises ``MalformedRecord`` for a record that this feed cannot have written."""
        try:
            if key is None:
                return self._marker(value)
            values = tuple(self.fields(key).values())
            if value == b"" and self._oversize:
                return oversize_record(values, headers)
            return self._row(values, value)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise MalformedRecord(
                f"not an Avro record of the {self._envelope.value} envelope ({quoted_error(error)}): "
                f"{quoted_record(key, value)}"
            ) from None

    def _marker(self, value: bytes | None) -> MarkerRecord:
        ((name, resolved),) = self.fields(value).items()
        if name != _RESOLVED:
            raise ValueError(f"a marker has the field {_RESOLVED}, not {name}")
        return MarkerRecord(ResolvedTimestamp(parse_decimal(resolved)))

    def _row(self, key: tuple[Any, ...], value: bytes | None) -> RowRecord:
        if self._read_row is None:
            raise ValueError("this envelope has no Avro form")
        return self._read_row(key, value, self)
