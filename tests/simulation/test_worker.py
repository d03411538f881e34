"""The worker under every fault at once: as many runs as a test may take. `make soak` goes on for longer.

Each test starts `python -m tests.simulation`; its output names the command that repeats a failure.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.defects import DEFECTS

_ROOT = Path(__file__).parents[2]
_RUNS = 5  # of one test; about a second of computing each
_PROFILE = "fast"
#: Where a defect is looked for: what nothing else disturbs is found sooner.
_PROFILES = {"child-before-hand-off": "moves", "abort-before-commits": "still"}


def _simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    told = os.environ | {"PYTHONHASHSEED": "0"}  # what it would begin once more for
    return subprocess.run(command, cwd=_ROOT, env=told, capture_output=True, text=True, check=False)


def _profile(defect: str) -> tuple[str, str]:
    return "--profile", _PROFILES.get(defect, _PROFILE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4 * _RUNS, _RUNS))
def test_whatever_goes_wrong_the_output_keeps_its_promise(first: int) -> None:
    done = _simulate("--profile", _PROFILE, "--seed", str(first), "--runs", str(_RUNS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_gives_the_same_run_every_time() -> None:
    assert _simulate("--seed", "3").stdout == _simulate("--seed", "3").stdout


@pytest.mark.slow
@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_defect_is_found_within_two_minutes(defect: str) -> None:
    done = _simulate("--seed", "0", "--cpu-seconds", "120", "--first", "--defect", defect, *_profile(defect))
    found = re.search(r"reproduce: .* --profile (\w+) --seed (\d+)", done.stdout)
    assert done.returncode == 1, f"{defect} was not found\n{done.stdout}{done.stderr}"
    assert found is not None, done.stdout + done.stderr
    sound = _simulate("--profile", found[1], "--seed", found[2])
    assert sound.returncode == 0, f"the seed fails without the defect as well\n{sound.stdout}"
