"""Simulated workers whose kernel checks Python end at a difference.

Differences in rows and transactions are planted in `tests/unit/kernel/test_lockstep.py`: the kernel
seldom follows versions in simulated workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.simulation.plan import PROFILES, draw
from tests.simulation.run import Run
from tidegate.kernel import log_message
from tidegate.kernel.kernel_mode import KernelMode

pytest.importorskip("wasmtime")

_SEED: Final = 3
_CALM_S: Final = 5.0


def _replaced(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[Any], Any]) -> None:
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *arguments: change(original(*arguments)))


_PLANTED: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "clock": lambda patch: _replaced(patch, log_message, "_clock", lambda numbers: b"\1" + numbers[1:]),
    "state hand-back": lambda patch: _replaced(
        patch, log_message, "_moved_range", lambda moved: moved._replace(applied=moved.applied + 1)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("stage", _PLANTED)
def test_a_planted_difference_ends_the_worker_that_finds_it(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _PLANTED[stage](monkeypatch)
    faults = str(Run(draw(_SEED, PROFILES["fast"]), None, _CALM_S, KernelMode.CHECK).run().faults)
    assert "the kernel and Python differ in" in faults
