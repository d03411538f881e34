"""The cycle collector is as it was when a pause ends."""

from __future__ import annotations

import gc

import pytest

from tidegate.client.subscribe.collector_pause import collector_paused


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collector_paused():
        _ = 1 / gc.isenabled()  # false within the pause
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
