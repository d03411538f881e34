"""The changefeed cases of tests/conformance that run a feed and change no schema: one case each.

Cases with a refused statement, with an option that is not supported yet, or with a fault of the input are
left out: tests/e2e shows what a worker does then.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from tests.conformance import case as conformance
from tests.conformance.case_feed import case_feed
from tests.conformance.feed_run import BuiltFeeds, build_feeds
from tests.contract.case import Case, World
from tests.hand_log import at
from tidegate.changefeed.definition.options import InitialScan
from tidegate.errors import StatementError

_FILE: Final = Path(__file__).parents[2] / "conformance" / "vectors" / "changefeed.jsonl"
_GROUPS: Final = frozenset(
    f"changefeed.{group}" for group in ("avrotype", "basic", "enc", "env", "jsontype", "keycol", "part")
)


def build_vector(vector: conformance.Case, world: World) -> BuiltFeeds:
    """Write a vector's history into a world; explicit timestamps are moved to where hand-written logs are."""
    return build_feeds(
        vector,
        case_feed(vector),
        world,
        table_ids=count(world.first_table_id),
        range_ids=count(world.first_range_id),
        origin=at(0),
        prefix=f"case{world.number}-",
    )


def _build(vector: conformance.Case, world: World) -> None:
    world.run(build_vector(vector, world).feeds)


def _runs(vector: conformance.Case) -> bool:
    if conformance.kind_of(vector) not in _GROUPS or not vector.get("table"):
        return False
    if any(write["op"] in ("ddl", "inject") for write in vector["writes"]):
        return False
    try:
        options = case_feed(vector).define()
    except StatementError:
        return False
    return options.initial_scan is not InitialScan.ONLY  # nothing answers scans here


#: By the names of their cases.
VECTORS: Final = {
    f"vector {vector['id']}": vector for vector in conformance.read_cases(_FILE) if _runs(vector)
}
CASES: Final = tuple(Case(name, partial(_build, vector)) for name, vector in VECTORS.items())
