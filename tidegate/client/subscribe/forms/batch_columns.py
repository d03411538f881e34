"""The columns of a subscription's batches, as their forms need them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tidegate.changefeed.definition.options import Format
from tidegate.errors import InputError
from tidegate.rows.types import SqlType
from tidegate.subscribe.column_types import key_columns, value_types
from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.plan import SubscribePlan


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """The columns of the rows of one subscription.

    Attributes:
        shape: the form of the rows.
        types: the SQL types of the columns after SUBSCRIBE's own; ``None`` where one is not known.
        primary_key: the names of the columns of the table's primary key; empty if the rows do not have all of
            them.
        format: the format of the feed's records: dates of JSON are texts, dates of Avro are dates.
    """

    shape: OutputShape
    types: tuple[SqlType | None, ...]
    primary_key: tuple[str, ...] = ()
    format: Format = Format.JSON

    @classmethod
    def of(cls, plan: SubscribePlan, record_format: Format) -> BatchColumns:
        """Make the columns of a plan's rows."""
        return cls(plan.shape, value_types(plan), key_columns(plan), record_format)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self.shape.header

    @property
    def own(self) -> int:
        """The number of columns that are SUBSCRIBE's own; they come first."""
        return len(self.header) - len(self.types)

    def require_names(self) -> None:
        """Raise ``InputError`` where two columns have one name: in most forms a column is found by it."""
        twice = [name for name, count in Counter(self.header).items() if count > 1]
        if twice:
            raise InputError(
                f"Two columns have the name {twice[0]}, so these batches have only the form batch.rows. "
                "Subscribe to a query that gives one of them another name with AS."
            )
