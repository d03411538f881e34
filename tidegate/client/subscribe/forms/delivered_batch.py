"""A batch as a program gets it: its rows, and the same rows in other forms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.client.subscribe.forms.batch_columns import BatchColumns
from tidegate.client.subscribe.forms.html_table import html_table
from tidegate.client.subscribe.forms.net_changes import NetChange, net_changes
from tidegate.client.subscribe.forms.optional_packages import optional_package
from tidegate.client.subscribe.history_policy import HistoryLoss
from tidegate.subscribe.subscription import SubscriptionBatch


@dataclass(frozen=True, slots=True)
class DeliveredBatch(SubscriptionBatch):
    """A batch of one statement.

    Each form is made when it is asked for: from the rows, or from Arrow tables if the batch has
    `ColumnarRows`.

    Attributes:
        columns: the names, types and form of the rows' columns.
        loss: that history was lost before this batch, and how the subscription went on; ``None`` for no loss.
    """

    columns: BatchColumns = field(repr=False, compare=False)
    loss: HistoryLoss | None = None

    @classmethod
    def of(
        cls, batch: SubscriptionBatch, columns: BatchColumns, loss: HistoryLoss | None = None
    ) -> DeliveredBatch:
        """Join a batch with its columns."""
        return cls(
            batch.frontier,
            batch.rows,
            batch.is_snapshot,
            batch.token,
            batch.is_last,
            columns,
            loss,
            is_partial=batch.is_partial,
        )

    def dicts(self) -> list[dict[str, Any]]:
        """Return each row by its columns' names. Raises ``InputError`` for two columns of one name."""
        self.columns.require_names()
        header = self.columns.header
        return [dict(zip(header, row, strict=True)) for row in self.rows]

    def arrow(self, as_text: Collection[str] = ()) -> Any:
        """Return a ``pyarrow.Table``, typed by the table's columns; those named ``as_text`` are strings.

        Raises ``SettingsError`` without the extra ``arrow``, ``RowError`` for a value that has no form in its
        column's type, ``InputError`` for two columns of one name.
        """
        optional_package("pyarrow", "arrow", "an Arrow table")
        # Imported here: it needs pyarrow.
        from tidegate.client.subscribe.forms.arrow_table import arrow_table

        return arrow_table(self.columns, self.rows, as_text)

    def polars(self, as_text: Collection[str] = ()) -> Any:
        """Return a ``polars.DataFrame`` of the Arrow table. Needs the extra ``polars``; raises as
        ``arrow``."""
        polars = optional_package("polars", "polars", "a polars frame")
        return polars.from_arrow(self.arrow(as_text))

    def pandas(self, as_text: Collection[str] = ()) -> Any:
        """Return a ``pandas.DataFrame`` of the Arrow table; its columns keep Arrow's types.

        pandas' own types have no NULL among integers, and no decimals. Needs the extra ``pandas``; raises as
        ``arrow``.
        """
        pandas = optional_package("pandas", "pandas", "a pandas frame")
        return self.arrow(as_text).to_pandas(types_mapper=pandas.ArrowDtype)

    def net_changes(self, key: Sequence[str] = ()) -> list[NetChange]:
        """Return the row before the batch and the row after it for each key that differs.

        ``key`` are the columns that no two rows share; by default KEY's, or the table's primary key. Raises
        ``InputError`` for columns that cannot be the key.
        """
        return net_changes(self.columns, self.rows, key)

    def _repr_html_(self) -> str:
        kind = "snapshot, " if self.is_snapshot else ""
        told = f"complete below {self.frontier.decimal()}"
        if self.is_partial:
            told = f"a chunk of the snapshot as of {self.frontier.decimal()}"
        caption = f"{kind}{len(self.rows)} rows, {told}"
        return html_table(caption, self.columns.header, self.rows)
