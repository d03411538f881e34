"""The one schema of the Avro keys of a topic.

Rows are told apart by the bytes of their keys. The bytes of an Avro key begin with the number of its schema.
If a column of the primary key gets another type, or a registry gives the same schema another number, one
key has two forms. Then the row with the first form of its key would never be deleted.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import SchemaMismatch
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.gate.row_gate import GateOpening

#: What an Avro key begins with: a zero byte, and the four bytes of the number.
_FRAMED: Final = b"\0"
_FRAME_BYTES: Final = 5


class KeySchema:
    """Requires that all keys of a topic have the same schema. Each subscription has its own `KeySchema`."""

    __slots__ = ("_frame", "_rows")

    def __init__(self, rows: KeyRows) -> None:
        """``rows`` is the subscription's table of rows by key. After a resume one of its keys counts as the
        first key.
        """
        self._rows = rows
        self._frame: bytes | None = None

    def require(self, opening: GateOpening) -> None:
        """Raise ``SchemaMismatch`` for a row whose key has another schema than the first key had.

        Raises what the table of rows raises.
        """
        rows = opening.rows
        if not len(rows):
            return
        if self._frame is None:
            first = self._rows.any_key() or rows.keys[0]
            self._frame = first[:_FRAME_BYTES] if first.startswith(_FRAMED) else b""
        frame = self._frame
        if not frame:
            return
        for at, key in enumerate(rows.keys):
            if not key.startswith(frame):
                place = rows.places[at]
                raise SchemaMismatch(
                    f"The key at offset {rows.offsets[at]} of {place} has the schema {_number(key)}, and "
                    f"keys before it have {_number(frame)}: a column of the primary key has another type "
                    "now, or the registry another number for the schema. So equal keys cannot be told to be "
                    "the same. Create a new feed WITH initial_scan on topics of its own, and subscribe to "
                    "that",
                    place.topic,
                    place.partition,
                    rows.offsets[at],
                )


def _number(key: bytes) -> int:
    return int.from_bytes(key[1:_FRAME_BYTES], "big")
