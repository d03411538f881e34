"""Simulated workers whose kernel checks Python end at a difference, whichever stage it is planted in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.simulation.plan import PROFILES, draw
from tests.simulation.run import Run
from tests.unit.kernel.planted import (
    PLANTED_AMID_GAPS,
    PLANTED_IN_DECODING,
    PLANTED_IN_LOGS,
    PLANTED_IN_ROWS,
)
from tidegate.kernel import log_message
from tidegate.kernel.kernel_mode import KernelMode

pytest.importorskip("wasmtime")

#: Two runs of a few seconds: the second has rows of other types.
_SEEDS: Final = (1, 6)
_CALM_S: Final = 5.0


def _other_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = log_message._clock
    monkeypatch.setattr(log_message, "_clock", lambda numbers: b"\1" + clock(numbers)[1:])


_PLANTED: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "the log clock": _other_clock,
    **PLANTED_IN_DECODING,
    **{
        stage: PLANTED_IN_LOGS[stage]
        for stage in (
            "the applied index",
            "what is closed",
            "what is resolved",
            "the highest version of a range",
            "the count of intents",
            "the timestamp of a transaction",
            "the generation",
        )
    },
    **{
        stage: PLANTED_IN_ROWS[stage]
        for stage in (
            "an integer that is read as an OID",
            "the text around datums",
            "the partition",
            "the template of a row",
            "the time of a row",
        )
    },
    "when a range was heard": PLANTED_AMID_GAPS["when a range was heard"],
}


def _faults(seed: int) -> str:
    return str(Run(draw(seed, PROFILES["fast"]), None, _CALM_S, KernelMode.CHECK).run().faults)


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("stage", _PLANTED)
def test_a_planted_difference_ends_the_worker_that_finds_it(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _PLANTED[stage](monkeypatch)
    assert any("the kernel and Python differ in" in _faults(seed) for seed in _SEEDS)
