"""A file of allowed destinations, as of an operator who lets feeds write to every cluster and registry of
this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tidegate.access.destinations_file import read_destinations

#: The value for ``Settings.destinations_file`` and TIDEGATE_DESTINATIONS_FILE.
DESTINATIONS_FILE: Final = Path(__file__).with_name("destinations.toml")
#: The same for a ``KafkaConnection``.
DESTINATIONS: Final = read_destinations(DESTINATIONS_FILE)


@pytest.fixture
def others_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give workers, queries and commands of the test these entries."""
    monkeypatch.setenv("TIDEGATE_DESTINATIONS_FILE", str(DESTINATIONS_FILE))
