"""Reads JSON records back, for consumers, for the audit and for ``tail``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.connect.payload_reader import read_payload
from tidegate.changefeed.encoding.envelopes.envelope_form import EnvelopeForm
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.encoding.json.metadata import METADATA_MEMBER
from tidegate.changefeed.encoding.json.parsing import parse
from tidegate.changefeed.encoding.quoted import quoted_error, quoted_record
from tidegate.changefeed.encoding.record import Headers, MarkerRecord, Record, Value, oversize_record
from tidegate.changefeed.encoding.record_members import expect
from tidegate.changefeed.encoding.value_members import ValueMembers
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, parse_decimal

_FRAME: Final = frozenset({"payload", "schema"})


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Reads JSON records of one envelope.

    ``row_keys`` is false if ``key_column`` replaces the rows' own keys. With ``connect_schema`` or
    ``enriched_schema`` keys and values are the payloads of objects that hold a schema beside them.
    ``members`` are those of the feed's values. If they are not given, a value may have every member that its
    envelope allows. ``oversize`` says that values may have been left out.
    """

    envelope: Envelope
    row_keys: bool = True
    connect_schema: bool = False
    enriched_schema: bool = False
    members: ValueMembers | None = None
    oversize: bool = True

    @property
    def tombstones(self) -> bool:
        """Whether a tombstone follows each deletion's record."""
        return form_of(self.envelope).tombstones

    @property
    def value_members(self) -> ValueMembers:
        """The members that values may have."""
        return form_of(self.envelope).json.any_members if self.members is None else self.members

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """Read one record. Raises ``MalformedRecord`` for a record that this feed cannot have written."""
        form = form_of(self.envelope)
        try:
            if key is None:
                return _marker(parse(value, dict), form)
            values = self._key(key, form)
            if value == b"" and self.oversize and form.may_leave_out:
                return oversize_record(values, headers)
            return form.json.read(values, value, self)
        except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
            raise MalformedRecord(
                f"not a JSON record of the {self.envelope.value} envelope ({quoted_error(error)}): "
                f"{quoted_record(key, value)}"
            ) from None

    def fields(self, value: bytes | None) -> dict[str, Value]:
        """Return the members of a key or a value, without the schema beside them."""
        parsed = parse(value, dict)
        if not self.enriched_schema and not self.connect_schema:
            return parsed
        if parsed.keys() != _FRAME:
            raise ValueError(f"the members {', '.join(parsed)} in place of {' and '.join(sorted(_FRAME))}")
        return expect(parsed["payload"] if self.enriched_schema else read_payload(parsed), dict)

    def _key(self, key: bytes, form: EnvelopeForm) -> tuple[Value, ...]:
        values = tuple(self.fields(key).values() if form.keys.is_object else parse(key, list))
        if not values:
            raise ValueError("a key without columns")
        return values


def parse_record(
    key: bytes | None, value: bytes | None, envelope: Envelope = Envelope.WRAPPED, headers: Headers = ()
) -> Record:
    """Read one JSON record.

    Raises ``MalformedRecord``, also for a row whose value was left out, if its ``headers`` are not given.
    """
    return JsonDecoder(envelope).decode(key, value, headers)


def _marker(value: dict[str, Value], form: EnvelopeForm) -> MarkerRecord:
    if not form.marker_as_member:
        value = expect(_only_member(value, METADATA_MEMBER), dict)
    return MarkerRecord(ResolvedTimestamp(parse_decimal(expect(_only_member(value, "resolved"), str))))


def _only_member(value: dict[str, Value], name: str) -> Value:
    if value.keys() != {name}:
        raise ValueError(f"a marker has the member {name} alone")
    return value[name]
