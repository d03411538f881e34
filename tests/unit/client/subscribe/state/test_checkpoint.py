"""Epochs rise, whatever the clock does."""

from __future__ import annotations

import pytest

from tidegate.client.subscribe.state.checkpoint import next_epoch, require_name, wall_clock_ms
from tidegate.errors import SettingsError


def test_an_epoch_is_above_the_one_before_and_the_present_if_that_is_higher() -> None:
    assert [next_epoch(0, 50), next_epoch(50, 50), next_epoch(70, 50), next_epoch(70, 80)] == [50, 51, 71, 80]
    assert 1_600_000_000_000 < wall_clock_ms() <= wall_clock_ms()


def test_a_checkpoint_needs_a_name() -> None:
    require_name("n")
    with pytest.raises(SettingsError, match="needs a name"):
        require_name("")
