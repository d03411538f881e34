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
_PROFILES = {
    "changes-between-epochs-forgotten": "takeovers",
    "child-before-hand-off": "moves",
    "abort-before-commits": "still",
    "given-up-batch-passed-over": "schemas",
    "refused-row-as-delivered": "refusals",
    "ended-producer-forgotten": "refusals",
    "claims-only-where-needed": "odd",
    "keys-do-not-count": "refusals",
    "last-refusal-unheard": "refusals",
    "accepted-at-the-high-water": "fail-overs",
    "left-out-as-deleted": "refusals",
    "limit-by-the-process": "refusals",
    "mutations-unread": "odd",
    "markers-without-comparison": "strangers",
    "markers-repeated": "strangers",
    "rows-without-comparison": "strangers",
    "unfrozen-state": "crashes",
}
#: What never comes to rest is most of a run that finds a defect. These runs do so in less without it.
_CALM_S = 60
#: Seeds with short runs that find a defect. Changes of the code shift what a seed brings about: the search
#: goes on from there. That it needs no such hint, the tests of `make soak` show.
_SEEDS = {
    "abort-before-commits": 194,
    "accepted-at-the-high-water": 9,
    "addresses-decide-the-cluster": 13,
    "changes-between-epochs-forgotten": 45,
    "child-before-hand-off": 211,
    "claims-only-where-needed": 41,
    "ended-producer-forgotten": 46,
    "given-up-batch-passed-over": 36,
    "healing-without-scan": 131,
    "keys-do-not-count": 2,
    "limit-by-the-process": 2,
    "last-refusal-unheard": 8,
    "marker-to-all-but-one": 113,
    "mutations-unread": 17,
    "markers-without-comparison": 7,
    "markers-repeated": 2,
    "offsets-before-acknowledgements": 48,
    "refused-row-as-delivered": 4,
    "rows-without-comparison": 7,
    "state-before-rows": 112,
    "unfrozen-state": 7,
    "unreported-span-ignored": 47,
}


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


@pytest.mark.slow
def test_feeds_whose_rows_are_refused_fail_and_no_other_feed_or_worker_does() -> None:
    done = _simulate("--profile", "refusals", "--seed", "0", "--runs", str(_RUNS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "profile", ["moves", "refusals", "schemas", "sinks", "strangers", "takeovers", "changed-fail-overs"]
)
def test_each_kind_of_trouble_by_itself_breaks_no_promise(profile: str) -> None:
    """The last test of `make soak` is of long runs with all of them."""
    done = _simulate("--profile", profile, "--seed", "0", "--runs", str(10 * _RUNS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_feeds_go_on_on_clusters_that_operators_accept() -> None:
    done = _simulate("--profile", "fail-overs", "--seed", "0", "--runs", str(2 * _RUNS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_an_odd_log_and_feeds_that_are_dropped_break_no_promise_and_end_no_worker() -> None:
    done = _simulate("--profile", "odd", "--seed", "0", "--runs", str(2 * _RUNS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["takeovers", "changed-fail-overs"])
def test_data_that_changes_while_a_feed_goes_on_elsewhere_is_under_no_marker(profile: str) -> None:
    done = _simulate("--profile", profile, "--seed", "0", "--runs", str(_RUNS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_gives_the_same_run_every_time() -> None:
    assert _simulate("--seed", "1").stdout == _simulate("--seed", "1").stdout


@pytest.mark.slow
@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_defect_is_found_within_two_minutes(defect: str) -> None:
    _find(defect, _SEEDS.get(defect, 0), "--calm", str(_CALM_S))


@pytest.mark.soak
@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_defect_is_found_within_two_minutes_without_a_hint(defect: str) -> None:
    _find(defect, 0)


def _find(defect: str, seed: int, *patience: str) -> None:
    """The defect is found, at ``seed`` or above; the run that finds it is as it should be without it."""
    limits = "--seed", str(seed), "--cpu-seconds", "120", "--first", "--sound", *patience
    done = _simulate("--defect", defect, *limits, *_profile(defect))
    assert done.returncode == 1, f"{defect} was not found from seed {seed} on\n{done.stdout}{done.stderr}"
    sound = re.search(r"^without the defect: seed \d+: (\w+)", done.stdout, re.MULTILINE)
    assert sound is not None, done.stdout + done.stderr
    assert sound[1] == "ok", f"the seed fails without the defect as well\n{done.stdout}"
