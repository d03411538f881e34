"""Puts secrets in place of the references in a feed's headers, just before rows go to their producer.

Before that, in state and in spools, rows have the references.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.access.secret_store import Secrets
from tidegate.changefeed.definition.extra_headers import header_references
from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.definition.secret_reference import secret_name
from tidegate.processor.batch import OutputRecord


class HeaderSecrets:
    """The secrets of one feed's headers. It costs nothing if no header names a secret."""

    def __init__(self, definition: FeedDefinition, secrets: Secrets) -> None:
        self._named = header_references(definition.options.extra_headers)
        self._places = definition.sink.hosts if self._named else ()
        self._secrets = secrets

    def into(self, rows: Sequence[OutputRecord], first: int = 0) -> Sequence[OutputRecord]:
        """Return the rows, with secrets from row ``first`` on. Raises ``SecretMissing``."""
        if not self._named:
            return rows
        values = {(name, reference.encode()): self._value(reference) for name, reference in self._named}
        filled = (
            row._replace(headers=[(header[0], values.get(header, header[1])) for header in row.headers])
            for row in rows[first:]
        )
        return [*rows[:first], *filled]

    def _value(self, reference: str) -> bytes:
        """Return the secret of a reference, which every broker of the sink may receive."""
        name = secret_name(reference)
        values = {self._secrets.get(name, place) for place in self._places}
        return values.pop().encode()
