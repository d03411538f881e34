"""Puts secrets in place of the references in a feed's headers, just before rows go to their producer.

Before that, in state and in spools, rows have the references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from tidegate.access.secret_store import Secrets
from tidegate.changefeed.definition.extra_headers import header_references
from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.definition.secret_reference import secret_name
from tidegate.processor.batch import OutputRecord
from tidegate.processor.written_records import starting_at


class HeaderSecrets:
    """The secrets of one feed's headers. It costs nothing if no header names a secret."""

    def __init__(self, definition: FeedDefinition, secrets: Secrets) -> None:
        self._named = header_references(definition.options.extra_headers)
        self._places = definition.sink.hosts if self._named else ()
        self._secrets = secrets

    def into(self, rows: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
        """Return the rows with secrets in place of references.

        Raises ``SecretMissing`` if a secret is not there, or may not be given to a broker of the sink.

        The secrets are put into a row only when the row is asked for. A sink without room asks for no row.
        """
        if not self._named:
            return rows
        values = {(name, reference.encode()): self._value(reference) for name, reference in self._named}
        return _FilledRows(rows, values)

    def _value(self, reference: str) -> bytes:
        """Return the secret of a reference, which every broker of the sink may receive."""
        name = secret_name(reference)
        values = {self._secrets.get(name, place) for place in self._places}
        return values.pop().encode()


class _FilledRows(Sequence[OutputRecord]):
    """Rows in which headers have secrets as their values.

    ``values`` has the secret for each pair of a header's name and a reference.
    """

    __slots__ = ("_rows", "_values")

    def __init__(self, rows: Sequence[OutputRecord], values: Mapping[tuple[str, bytes], bytes]) -> None:
        self._rows = rows
        self._values = values

    def starting_at(self, first: int) -> Iterator[OutputRecord]:
        """Yield the rows from position ``first`` on, without the rows before it."""
        return map(self._filled, starting_at(self._rows, first))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[OutputRecord]:
        return self.starting_at(0)

    @overload
    def __getitem__(self, at: int) -> OutputRecord: ...
    @overload
    def __getitem__(self, at: slice) -> list[OutputRecord]: ...
    def __getitem__(self, at: int | slice) -> OutputRecord | list[OutputRecord]:
        if isinstance(at, slice):
            return [self._filled(row) for row in self._rows[at]]
        return self._filled(self._rows[at])

    def _filled(self, row: OutputRecord) -> OutputRecord:
        values = self._values
        return row._replace(headers=[(header[0], values.get(header, header[1])) for header in row.headers])
