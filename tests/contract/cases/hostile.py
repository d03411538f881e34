"""The corpus of hostile inputs, each beside a healthy range. Every engine has to give everything of that
range to its feed.

Rows that a broker would not take are left out: each engine refuses them at another place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tests.contract.case import Case, World
from tests.hostile.corpus.case import Hostile, Stage
from tests.hostile.corpus.entries import ENTRIES
from tests.hostile.corpus.rows import ROWS
from tidegate.changefeed.definition.options import OnOversize
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES

_LEFT_OUT: Final[dict[str, Any]] = {
    "on_oversize": OnOversize.KEY_ONLY,
    "max_row_bytes": DEFAULT_MAX_ROW_BYTES,
}


def _case(hostile: Hostile) -> Case:
    def build(world: World) -> None:
        tables = world.table(hostile.columns, hostile.key), world.table()
        first, second = (world.range(table.span) for table in tables)
        hostile.write_to(Stage(world, tables, (first, second)))
        world.feed(tables[0], options=replace(hostile.options, **_LEFT_OUT))
        world.feed(tables[1])

    return Case(f"hostile: {hostile.name}", build)


CASES: Final = tuple(map(_case, (*ENTRIES, *ROWS)))
