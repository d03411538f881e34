"""`EnvelopeForm`: all that an envelope does. Each envelope's module makes one, and the registry has them all.

Everybody else asks the form and names no envelope: the encoder, the decoders, the parser of statements, the
processors and the warehouse loader.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.encoding.record_encoder import RecordEncoder
from tidegate.changefeed.encoding.row_templates import RowTemplates
from tidegate.changefeed.encoding.value_members import ValueMembers
from tidegate.rows.descriptor import TableDescriptor


class RecordReading(Protocol):
    """The facts of a feed that a decoder of its records needs."""

    @property
    def value_members(self) -> ValueMembers:
        """The members that a value of the feed may have."""

    @property
    def row_keys(self) -> bool:
        """Whether keys are those of the rows: ``key_column`` does not replace them."""

    @property
    def fields(self) -> Callable[[bytes | None], dict[str, Any]]:
        """The function that returns the members of a value from its bytes.

        It raises ``ValueError`` or ``TypeError`` for bytes that are not such a value.
        """


Compile: TypeAlias = Callable[[TableDescriptor, FeedOptions], RecordEncoder]
#: Returns a row's record from the key's values and the value's bytes. Raises ``ValueError``, ``TypeError``,
#: ``KeyError`` or ``ArithmeticError`` for bytes that a feed with this envelope cannot have written.
Read: TypeAlias = Callable[[tuple[Any, ...], bytes | None, RecordReading], RowRecord]


@dataclass(frozen=True, slots=True)
class Codec:
    """An envelope in one format.

    Attributes:
        compile: returns the encoder of rows for a table version and a feed. It raises ``UnsupportedTable``,
            with the names of table and column, for a table that has no such form.
        read: reads a row's record back.
        members: returns the members that every value of a feed has.
        any_members: the members that values may have if the options of the feed are not known.
        templates: returns the encoder of rows as templates; ``None`` if the encoder does more than fill
            templates. ``encoder.row_templates`` adds what is the same for all envelopes, such as headers.
    """

    compile: Compile
    read: Read
    members: Callable[[FeedOptions], ValueMembers]
    any_members: ValueMembers
    templates: Callable[[TableDescriptor, FeedOptions], RowTemplates | None] | None = None


class Room(enum.Enum):
    """The place for the members that options add to a row: timestamps, key, topic and the row before."""

    AROUND_ROW = "around the row"
    """Beside the row, in each format. The row before has room there too."""
    AMONG_COLUMNS = "among the columns"
    """In an object among the row's columns, in JSON."""
    TIMESTAMPS = "timestamps"
    """In an object among the row's columns, in JSON. Only the timestamps have room there."""
    NOWHERE = "nowhere"
    """The timestamps may be asked for, and have no effect."""
    FIXED = "fixed"
    """The members are always the same. Options that add others are refused."""


class Previous(enum.Enum):
    """The use that an envelope makes of the row before."""

    UNUSED = "unused"
    SHOWN_BY_DIFF = "shown by diff"
    """The option ``diff`` shows the row before."""
    OPERATION = "operation"
    """The record's operation says whether there was a row before. The option ``diff`` shows that row."""
    SHOWN = "shown"
    """Each record shows the row before."""


@dataclass(frozen=True, slots=True)
class EnvelopeForm:
    """One envelope.

    Attributes:
        envelope: its name.
        keys: the form of keys in JSON.
        json: its JSON.
        avro: its Avro; ``None`` if it has no such form.
        room: where it puts what options add.
        previous: what it needs to know of the row before.
        loading_fault: returns why the warehouse loader cannot read a feed with these options, as the end of
            a sentence; empty if it can. The loader takes rows, their keys and their times from ``read``: the
            time of a row's commit is ``updated`` of its record.
        aliases: its older names in statements.
        csv: whether it may be asked for with ``format='csv'``, which has no envelope.
        tombstones: whether a record of the same key without a value follows a deletion's record.
        marker_as_member: whether markers among its rows have ``resolved`` at the top. Otherwise it stands in
            ``__crdb__``, since a member at the top would look like a column.
        for_sinks: whether it is made for Kafka Connect's sinks. If its records carry a schema, their columns
            have Connect's types. Sinks store the rows as they are.
        fixed_members: what its values have, as the end of a sentence, if there is no room for more.
        empty_value: what an empty value means, or why ``on_oversize`` may not write one, as the end of a
            sentence. The text is empty if no value is empty except one that ``on_oversize`` left out.
    """

    envelope: Envelope
    keys: KeyForm
    json: Codec
    avro: Codec | None
    room: Room
    previous: Previous
    loading_fault: Callable[[FeedOptions], str]
    aliases: tuple[str, ...] = ()
    csv: bool = False
    tombstones: bool = False
    marker_as_member: bool = False
    for_sinks: bool = False
    fixed_members: str = ""
    empty_value: str = ""

    @property
    def name(self) -> str:
        """The name of the envelope in statements."""
        return self.envelope.value

    @property
    def formats(self) -> frozenset[Format]:
        """The formats that a feed with this envelope may have."""
        others = {Format.AVRO: self.avro is not None, Format.CSV: self.csv}
        return frozenset({Format.JSON, *(each for each, has in others.items() if has)})

    @property
    def may_leave_out(self) -> bool:
        """Whether ``on_oversize`` may leave a value out. If it may, no other value is ever empty."""
        return not self.empty_value

    @property
    def page(self) -> str:
        """The section of the documentation that shows its records."""
        return f"docs/envelopes.md#{self.name}"
