"""The worker under every fault at once: as many runs as a test may take. `make soak` goes on for longer.

Each test does what `python -m tests.simulation` does; its output names the command that repeats a failure.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.defects import DEFECTS
from tests.simulation.forked import Simulations

_ROOT = Path(__file__).parents[2]
_RUNS = 2  # of one test; one or two seconds of computing each
_MANY_RUNS = 50  # of one test of `make soak`, those two among them
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
    "unblamed-row-forgotten": "refusals",
    "markers-without-comparison": "strangers",
    "markers-repeated": "strangers",
    "one-id-for-all-clusters": "strangers",
    "ends-without-comparison": "strangers",
    "lost-answer-as-an-end": "strangers",
    "rows-without-comparison": "strangers",
    "silent-ranges-waited-for": "odd",
    "taken-up-while-stopping": "stops",
    "unfrozen-state": "crashes",
}
#: What never comes to rest is most of a run that finds a defect. These runs do so in less without it.
_CALM_S = 60
#: Without their defect these come to rest when a range was silent for a quarter of an hour.
_PATIENT = {"silent-ranges-waited-for": 300}
#: Seeds with short runs that find a defect. Changes of the code shift what a seed brings about: the search
#: goes on from there. That it needs no such hint, the tests of `make soak` show.
_SEEDS = {
    "abort-before-commits": 202,
    "accepted-at-the-high-water": 12,
    "addresses-decide-the-cluster": 27,
    "changes-between-epochs-forgotten": 45,
    "child-before-hand-off": 211,
    "claims-only-where-needed": 1,
    "ended-producer-forgotten": 67,
    "ends-without-comparison": 62,
    "given-up-batch-passed-over": 36,
    "healing-without-scan": 131,
    "keys-do-not-count": 2,
    "left-out-as-deleted": 2,
    "limit-by-the-process": 2,
    "lost-answer-as-an-end": 16,
    "last-refusal-unheard": 8,
    "marker-to-all-but-one": 113,
    "mutations-unread": 17,
    "markers-without-comparison": 17,
    "markers-repeated": 18,
    "offsets-before-acknowledgements": 48,
    "one-id-for-all-clusters": 24,
    "position-behind-the-batch": 9,
    "refused-row-as-delivered": 4,
    "rest-of-a-batch-lost": 9,
    "rows-without-comparison": 7,
    "silent-ranges-waited-for": 31,
    "state-before-rows": 300,
    "taken-up-while-stopping": 42,
    "unblamed-row-forgotten": 6,
    "unfrozen-state": 18,
    "unreported-span-ignored": 47,
}


#: What takes longest to find: in `make soak`. Each kind of trouble has others that `make test` looks for.
_LONG = {
    "accepted-at-the-high-water",
    "addresses-decide-the-cluster",
    "changes-between-epochs-forgotten",
    "claims-only-where-needed",
    "ended-producer-forgotten",
    "ends-without-comparison",
    "every-index-counts",
    "last-refusal-unheard",
    "limit-by-the-process",
    "lost-answer-as-an-end",
    "markers-repeated",
    "markers-without-comparison",
    "silent-ranges-waited-for",
    "state-before-rows",
    "unfrozen-state",
    "unreported-span-ignored",
}


def _profile(defect: str) -> tuple[str, str]:
    return "--profile", _PROFILES.get(defect, _PROFILE)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 3 * _RUNS, _RUNS))
def test_whatever_goes_wrong_the_output_keeps_its_promise(simulations: Simulations, first: int) -> None:
    done = simulations.run("--profile", _PROFILE, "--seed", str(first), "--runs", str(_RUNS))
    assert done.status == 0, done.output


@pytest.mark.slow
def test_feeds_whose_rows_are_refused_fail_and_no_other_feed_or_worker_does(simulations: Simulations) -> None:
    done = simulations.run("--profile", "refusals", "--seed", "0", "--runs", str(_RUNS))
    assert done.status == 0, done.output


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "profile",
    [
        "changed-fail-overs",
        "fail-overs",
        "fast",
        "moves",
        "odd",
        "refusals",
        "schemas",
        "sinks",
        "stops",
        "strangers",
        "takeovers",
    ],
)
def test_each_kind_of_trouble_by_itself_breaks_no_promise(simulations: Simulations, profile: str) -> None:
    """The last test of `make soak` is of long runs with all of them."""
    done = simulations.run("--profile", profile, "--seed", "0", "--runs", str(_MANY_RUNS))
    assert done.status == 0, done.output


@pytest.mark.slow
def test_feeds_continue_on_clusters_that_operators_accept(simulations: Simulations) -> None:
    done = simulations.run("--profile", "fail-overs", "--seed", "0", "--runs", str(_RUNS))
    assert done.status == 0, done.output


@pytest.mark.slow
def test_workers_that_stop_in_order_leave_what_others_go_on_with_and_end(simulations: Simulations) -> None:
    done = simulations.run("--profile", "stops", "--seed", "0", "--runs", str(_RUNS))
    assert done.status == 0, done.output


@pytest.mark.slow
def test_an_odd_log_and_feeds_that_are_dropped_break_no_promise_and_end_no_worker(
    simulations: Simulations,
) -> None:
    done = simulations.run("--profile", "odd", "--seed", "0", "--runs", str(_RUNS))
    assert done.status == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["takeovers", "changed-fail-overs"])
def test_data_that_changes_while_a_feed_goes_on_elsewhere_is_under_no_marker(
    simulations: Simulations, profile: str
) -> None:
    done = simulations.run("--profile", profile, "--seed", "0", "--runs", str(_RUNS))
    assert done.status == 0, done.output


def test_a_seed_gives_the_same_run_every_time(simulations: Simulations) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "1"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert simulations.run("--seed", "1") == (done.returncode, done.stdout + done.stderr)


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(defect, marks=pytest.mark.soak) if defect in _LONG else defect
        for defect in sorted(DEFECTS)
    ],
)
def test_a_defect_is_found_within_two_minutes(simulations: Simulations, defect: str) -> None:
    calm_s = _PATIENT.get(defect, _CALM_S)
    _find(simulations, defect, _SEEDS.get(defect, 0), "--calm", str(calm_s))


@pytest.mark.soak
@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_defect_is_found_within_two_minutes_without_a_hint(simulations: Simulations, defect: str) -> None:
    _find(simulations, defect, 0)


def _find(simulations: Simulations, defect: str, seed: int, *patience: str) -> None:
    """The defect is found, at ``seed`` or above; the run that finds it is as it should be without it."""
    limits = "--seed", str(seed), "--cpu-seconds", "120", "--first", "--sound", *patience
    done = simulations.run("--defect", defect, *limits, *_profile(defect))
    assert done.status == 1, f"{defect} was not found from seed {seed} on\n{done.output}"
    assert "a step broke" not in done.output, f"{defect} breaks steps, as any slip would\n{done.output}"
    sound = re.search(r"^without the defect: seed \d+: (\w+)", done.output, re.MULTILINE)
    assert sound is not None, done.output
    assert sound[1] == "ok", f"the seed fails without the defect as well\n{done.output}"
