"""Three switches for an operator: which forms of output statements may ask for.

Materialize's design has the same switches, such as ``enable_envelope_upsert_in_subscribe``. In Materialize
two of them are off by default; here all are on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final

from tidegate.errors import SettingsError
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.statement import OutputClause, OutputMode

_CLAUSES: Final = {
    OutputMode.UPSERT: "ENVELOPE UPSERT",
    OutputMode.DEBEZIUM: "ENVELOPE DEBEZIUM",
    OutputMode.ORDERED: "WITHIN TIMESTAMP ORDER BY",
}


@dataclass(frozen=True, slots=True)
class SubscribeSwitches:
    """The outputs that statements may ask for. Plain diffs have no switch: nobody can switch them off."""

    envelope_upsert: bool = True
    envelope_debezium: bool = True
    within_timestamp_order_by: bool = True

    @classmethod
    def without(cls, names: Iterable[str]) -> SubscribeSwitches:
        """Return switches of which only those in ``names`` are off. Raises ``SettingsError`` for an unknown
        name."""
        switches, known = cls(), [each.name for each in fields(cls)]
        for name in names:
            if name not in known:
                raise SettingsError(f"There is no switch {name!r:.60}; there are {', '.join(known)}.")
            switches = replace(switches, **{name: False})
        return switches

    def require(self, output: OutputClause) -> None:
        """Raise ``SubscribeStatementError`` (``output_switched_off``) for an output that is off."""
        on = {
            OutputMode.UPSERT: self.envelope_upsert,
            OutputMode.DEBEZIUM: self.envelope_debezium,
            OutputMode.ORDERED: self.within_timestamp_order_by,
        }
        if not on.get(output.mode, True):
            raise StatementFault.SWITCHED_OFF.error(
                f"SUBSCRIBE {_CLAUSES[output.mode]} is not available",
                output.position,
                "whoever runs this service has switched it off; subscribe without it",
            )


ALL_ON: Final = SubscribeSwitches()
