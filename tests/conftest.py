"""What all tests share: one real broker, names that never collide, Hypothesis profiles.

``TIDEGATE_HYPOTHESIS=soak pytest --timeout=0`` runs every property test on a hundred times as many examples.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from stack.kafka import KafkaBroker
from tests.dealing import dealt

# No deadline: on a machine that also runs a broker, a slow example says nothing about the code.
# The blob reproduces a failure anywhere with one line.
settings.register_profile("fast", max_examples=100, deadline=None, print_blob=True)
settings.register_profile("soak", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("TIDEGATE_HYPOTHESIS", "fast"))

# The servers of tests live for minutes, too short for the JVM's second compiler to pay off: without it a
# broker takes 5 s of processor time to start, with it 9.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

_SLOW_S, _BROKER_S = 20, 3


@pytest.hookimpl(trylast=True)  # when the tests that are not asked for are gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several processes the tests are in an order that keeps all of them busy to the end."""
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = dealt(items, processes, lambda item: item.path, _seconds)


def _seconds(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return _SLOW_S
    return _BROKER_S if item.get_closest_marker("broker") else 0


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A real broker: started for the first test that asks for it, stopped after the last test.

    It is shared: tests that stop, freeze or kill a broker start a `KafkaBroker` of their own.
    """
    with KafkaBroker() as running:
        yield running


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, groups and transactional ids that no other test or run uses."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:40].strip("-")
    return f"{name}-{uuid.uuid4().hex[:8]}-"
