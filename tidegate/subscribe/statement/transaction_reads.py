"""Allows one SUBSCRIBE in a transaction, and no other read: two reads would be as of different times.

Source: Materialize ``src/adapter/src/error.rs`` (``SubscribeOnlyTransaction``).
"""

from __future__ import annotations

from tidegate.subscribe.statement.faults import StatementFault


class TransactionReads:
    """Knows whether a session's transaction has read before, and whether a SUBSCRIBE was the read."""

    __slots__ = ("_has_read", "_subscribes")

    def __init__(self) -> None:
        self._has_read = False
        self._subscribes = False

    def begin_subscribe(self) -> None:
        """Begin a SUBSCRIBE. Raises ``SubscribeStatementError`` after any other statement that reads."""
        self._require_first(read_before=self._has_read)
        self._has_read = self._subscribes = True

    def begin_read(self) -> None:
        """Begin another statement that reads. Raises ``SubscribeStatementError`` after a SUBSCRIBE."""
        self._require_first(read_before=self._subscribes)
        self._has_read = True

    @staticmethod
    def _require_first(*, read_before: bool) -> None:
        if read_before:
            raise StatementFault.NOT_ALONE.error(
                "SUBSCRIBE in transactions must be the only read statement",
                hint="end this transaction and begin another",
            )
