"""Rows of state: what a newer version wrote is told apart from what is damaged."""

from __future__ import annotations

import pytest

from tidegate.errors import StateError, StateMismatch
from tidegate.processor.state.state_codec import read_chunk
from tidegate.processor.state.stored_frame import STATE_VERSION, WRITTEN_VERSION

_KEY = (7).to_bytes(8, "big") + (1).to_bytes(4, "big")


def test_a_chunk_of_a_newer_version_asks_for_the_newer_worker() -> None:
    with pytest.raises(StateError, match="Run the newer worker") as refused:
        read_chunk(_KEY, bytes((STATE_VERSION + 1,)) + b"whatever that one writes")
    assert not isinstance(refused.value, StateMismatch)


def test_a_chunk_that_is_damaged_is_restored() -> None:
    with pytest.raises(StateMismatch, match="range 7 is damaged"):
        read_chunk(_KEY, bytes((WRITTEN_VERSION,)) + b"\xff")
