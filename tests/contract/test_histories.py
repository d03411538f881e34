"""Random histories with splits and merges through every engine: the same rows, and markers that are true.

A failure names the history's seed; ``histories(seed, 1)`` is that history alone.
"""

from __future__ import annotations

import pytest

from tests.contract.case import merged
from tests.contract.comparison import of_topics, rows_by_key, unseen_rows_below_markers
from tests.contract.engine import Engine
from tests.contract.histories import histories

_TOGETHER = 20


def _compare(engine: Engine, first: int, count: int) -> None:
    cases = histories(first, count)
    output = engine.run(merged(cases))
    for case in cases:
        written = of_topics(output, case.topics)
        assert rows_by_key(written) == rows_by_key(case.reference.output), case.name
        assert written, f"{case.name} has no rows"
        for feed in case.feeds:
            for place, records in written.items():
                if place.topic in {target.topic for target in feed.targets}:
                    assert unseen_rows_below_markers(feed, records) == [], case.name


def test_random_histories_come_out_alike(engine: Engine) -> None:
    _compare(engine, first=0, count=8)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("first", range(1_000, 1_200, _TOGETHER))
def test_two_hundred_random_histories_come_out_alike(engine: Engine, first: int) -> None:
    _compare(engine, first, _TOGETHER)
