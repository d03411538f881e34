"""Scenarios on the shared broker, and two clusters at one address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.scenario import Scenario, bank_log
from tests.e2e.two_clusters import TwoClusters, two_clusters


@pytest.fixture
def scenario(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    """A bank's log that is not written yet, and no worker."""
    made = Scenario(broker.bootstrap, topic_prefix, tmp_path, bank_log(seed=7, transactions=200))
    yield made
    made.close()


@pytest.fixture(scope="session")
def sites() -> Iterator[TwoClusters]:
    """Two clusters. Their address means neither of them at first, or the one that an earlier test turned
    to."""
    with two_clusters() as both:
        yield both
