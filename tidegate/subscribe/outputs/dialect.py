"""The dialect of a subscription: what it does where tidegate and Materialize differ."""

from __future__ import annotations

import enum

from tidegate.errors import SettingsError


class Dialect(enum.Enum):
    """A dialect. Its value is its name in keyword arguments and on the command line.

    | | tidegate | materialize |
    |---|---|---|
    | progress row when UP TO is reached | at UP TO | none (their ticket SQL-528) |
    | order within a timestamp, if none is asked for | retractions, then additions | by the row's values |
    | ties of WITHIN TIMESTAMP ORDER BY | retractions, then additions | by the row's values, then mz_diff |
    | the scale of a number, as in 1.0 and 1.00 | kept: they are two values | none: 1 |
    | the timestamp in the error for lost history | an HLC decimal | a whole number if its logical part is 0 |
    """

    TIDEGATE = "tidegate"
    MATERIALIZE = "materialize"


def read_dialect(name: Dialect | str) -> Dialect:
    """Return the dialect of a name. Raises ``SettingsError`` for any other name."""
    try:
        return Dialect(name)
    except ValueError:
        known = ", ".join(each.value for each in Dialect)
        raise SettingsError(f"There is no dialect {name!r:.60}; there are {known}.") from None
