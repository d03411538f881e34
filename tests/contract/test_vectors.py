"""Every engine writes what the changefeed vectors list."""

from __future__ import annotations

import pytest

from tests.conformance.expectations import Outcome, unmet
from tests.conformance.feed_run import FeedRun, read_output
from tests.contract.case import World
from tests.contract.cases.vectors import VECTORS, build_vector
from tests.contract.catalogue import CASES, built
from tests.contract.conftest import Outputs
from tests.contract.known_schemas import schema_text


@pytest.mark.parametrize("name", VECTORS)
def test_a_vectors_records_markers_and_headers_come_out(name: str, outputs: Outputs) -> None:
    vector = VECTORS[name]
    if "state" in vector["expect"]:
        assert not any(outputs(name).values())  # why the feed failed, tests/conformance looks at
        return
    feeds = build_vector(vector, World(next(n for n, case in enumerate(CASES) if case.name == name)))
    assert feeds.feeds == list(built(name).feeds)
    run = FeedRun(
        feeds.history,
        tuple(feeds.log.descriptors),
        tuple(read_output(outputs(name), feed, schema_text) for feed in feeds.feeds),
        duplicates=True,
    )
    assert unmet(vector, Outcome("", run)) is None
