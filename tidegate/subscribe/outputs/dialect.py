"""The dialect of a subscription: its habits where tidegate and Materialize differ."""

from __future__ import annotations

import enum

from tidegate.subscribe.updates.row_identity import Identity, row_identity, written_identity


class Dialect(enum.Enum):
    """The value names it in keyword arguments and on the command line.

    | | tidegate | materialize |
    |---|---|---|
    | progress row when UP TO is reached | at UP TO | none (their ticket SQL-528) |
    | order within a timestamp, if none is asked for | retractions, then additions | by the row's values |
    | ties of WITHIN TIMESTAMP ORDER BY | retractions, then additions | by the row's values, then mz_diff |
    | values that are equal and written differently, as 1.0 and 1.00 | two | one |
    | a lost timestamp in its error | an HLC decimal | its whole number, if it has no logical part |
    """

    TIDEGATE = "tidegate"
    MATERIALIZE = "materialize"

    @property
    def identity(self) -> Identity:
        """The function that says which rows are one."""
        return row_identity if self is Dialect.MATERIALIZE else written_identity
