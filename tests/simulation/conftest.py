"""One process for the simulations of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.forked import Simulations


@pytest.fixture(scope="session")
def simulations() -> Iterator[Simulations]:
    """Yield the process that runs ``python -m tests.simulation`` in forks."""
    started = Simulations()
    yield started
    started.close()
