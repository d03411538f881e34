"""One process for the simulations of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.forked import Simulations


@pytest.fixture(scope="session")
def simulations() -> Iterator[Simulations]:
    """Give the processes that run ``python -m tests.simulation``."""
    started = Simulations()
    yield started
    started.close()
