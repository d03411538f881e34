"""The past of a relation that can still be read, and the choice of an AS OF in it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import HistoryLost, ObjectDropped
from tidegate.hlc import Timestamp
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, require_bounds
from tidegate.subscribe.updates.relation import Relation


@dataclass(frozen=True, slots=True)
class ReadableHistory:
    """The part of a relation's past that its output topics still have.

    Attributes:
        readable_from: the lowest AS OF such that all updates above it can be read.
        present: the newest timestamp that is complete, from which a statement without AS OF begins.
    """

    readable_from: Timestamp
    present: Timestamp

    def choose_as_of(self, plan: SubscribePlan) -> Timestamp:
        """Return the AS OF at which a plan's subscription begins.

        Raises ``HistoryLost`` if the plan's AS OF cannot be read any more, and ``SubscribeStatementError`` if
        the result is above UP TO.
        """
        if plan.as_of is None:
            chosen = max(self.present, self.readable_from)
        elif plan.at_least:
            chosen = max(plan.as_of, self.readable_from)
        else:
            self.require(plan.as_of, plan.dialect)
            chosen = plan.as_of
        if plan.up_to is not None:
            require_bounds(str(chosen), str(plan.up_to), crossed=chosen > plan.up_to)
        return chosen

    def require(self, as_of: Timestamp, dialect: Dialect = Dialect.TIDEGATE) -> None:
        """Raise ``HistoryLost`` if ``as_of`` is below ``readable_from``: no history is left out silently.

        In Materialize's dialect the error shows a timestamp without a logical part as a whole number, because
        clients look for one.
        """
        if as_of < self.readable_from:
            whole = dialect is Dialect.MATERIALIZE and not as_of.logical
            raise HistoryLost(
                f"Timestamp ({as_of.wall if whole else as_of}) is not valid for all inputs: could not find a "
                "valid timestamp for the query, since the topics hold what is above "
                f"{self.readable_from} alone. Begin again with a snapshot, or from AS OF AT LEAST"
            )


def dropped(relation: Relation) -> ObjectDropped:
    """Make the error that ends the subscriptions of a relation that was dropped."""
    name = relation.name
    return ObjectDropped(f"relation '{name.database}.{name.schema}.{name.name}' was dropped", topic=name.name)
