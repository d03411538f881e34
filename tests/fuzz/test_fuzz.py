"""A short run of every target, and proof that the fuzzers can fail."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.campaign import Budget, run
from tests.fuzz.targets import TARGETS

#: The same inputs each time, thousands or tens of thousands for a target. All targets take a minute of
#: processor time together; `make test` takes some of them. `make soak` has twenty times as many, others each
#: time.
SEED: Final = 16
_SECONDS: Final = 60.0
_SOAK_SECONDS: Final = 1_200.0
_WEIGHTS: Final = sum(target.weight for target in TARGETS.values())


def _require_sound(name: str, seed: int, seconds: float) -> None:
    target = TARGETS[name]
    (account,) = run([target], seed, Budget(seconds * target.weight / _WEIGHTS))
    print(f"seed {seed}: {account.inputs} inputs for {name} in {account.seconds:.1f} s")
    again = f"python -m tests.fuzz --target {name} --seed {seed} --inputs {account.inputs}"
    assert not account.findings, "\n".join(map(str, account.findings.values())) + f"\nagain: {again}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TARGETS)
def test_what_reads_the_bytes_of_others_refuses_them_by_name(name: str) -> None:
    _require_sound(name, SEED, _SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", TARGETS)
def test_it_refuses_inputs_by_name_that_nobody_has_tried(name: str, tmp_path: Path) -> None:
    seed = time.time_ns() // 10**9
    (tmp_path / f"seed-{seed}").touch()  # an input that ends the process leaves no other trace
    _require_sound(name, seed, _SOAK_SECONDS)
