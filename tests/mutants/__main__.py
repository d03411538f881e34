"""``python -m tests.mutants --seed N``: a sample of small slips in the core, and those that no test notices.

Exit status 0 when 95 of 100 are noticed, 1 otherwise, 2 when nothing could be tried.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Final

import pytest

from tests.mutants.explained import explained, unexplained
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.survey import Survey
from tests.mutants.tree import ROOT, Tree
from tests.mutants.trial import OPTIONS, STAGES, BrokenWithout, Stage, Trial, attempt, hypothesis_seed, timed

CORE: Final = ("tidegate/ranges", "tidegate/rangefeed", "tidegate/processor", "tidegate/raftlog")
WANTED: Final = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, try a sample, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws the sample; by the clock where it is not given")
    parser.add_argument("--sample", type=int, default=60, help="so many mutants (60)")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time (2)")
    parser.add_argument("--only", default="", help="mutants whose description has this text, parking.py:77")
    parser.add_argument("--units", action="store_true", help="the unit tests alone, without the simulation")
    parser.add_argument(
        "--most",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="give a mutant up after tests that take so long, and pass over those that need a copy",
    )
    parser.add_argument(
        "--reach",
        type=Path,
        metavar="FILE",
        help="the file for what tests reach; it is measured unless the file is there",
    )
    parser.add_argument("--list", action="store_true", help="print them, and try none")
    asked = parser.parse_args(arguments)
    seed = time.time_ns() // 10**9 if asked.seed is None else asked.seed
    reasons = explained()
    every = [mutant for mutant in unexplained(of_core(), reasons) if asked.only in str(mutant)]
    sample = every if len(every) <= asked.sample else Random(seed).sample(every, asked.sample)
    print(
        f"seed {seed}: {len(sample)} of {len(every)} mutants; {len(reasons)} more are explained", flush=True
    )
    if asked.list:
        print(*sample, sep="\n")
        return 0
    stages = STAGES[:1] if asked.units else STAGES
    shown = _Shown(len(sample))
    with tempfile.TemporaryDirectory(prefix="tidegate-mutants-") as directory:
        survey = Survey(
            ROOT,
            {mutant.path for mutant in of_core()},
            sample,
            shown.add,
            stages=stages,
            jobs=asked.jobs,
            most_s=asked.most,
            reach=asked.reach or Path(directory, "reach"),
        )
        places = [place for stage in stages for place in stage.places]
        told = (
            *OPTIONS,
            hypothesis_seed(seed),
            "-o",
            "addopts=",
            "-p",
            "no:terminal",
            "-p",
            "no:cacheprovider",
        )
        if status := pytest.main([*places, *told], plugins=[survey]):
            return int(status)
        if asked.most == math.inf and survey.passed_over:
            try:
                _try_in_copies(survey.passed_over, stages, asked.jobs, seed, Path(directory), shown)
            except BrokenWithout as failure:
                print(failure)
                return 2
    return _report([done.mutant for done in shown.trials if done.noticed_by is None], len(shown.trials), seed)


def of_core() -> list[Mutant]:
    """Every mutant of the core's modules; generated ones are not mutated."""
    files = sorted(file for folder in CORE for file in (ROOT / folder).rglob("*.py"))
    return [
        mutant
        for file in files
        if not file.name.endswith("_pb2.py")
        for mutant in mutants_of(str(file.relative_to(ROOT)), file.read_bytes())
    ]


class _Shown:
    """Prints each trial when it is done, and keeps it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.trials: list[Trial] = []

    def add(self, done: Trial) -> None:
        """Print a trial."""
        self.trials.append(done)
        how = f"noticed by the {done.stage}: {done.noticed_by}" if done.noticed_by else "LIVED"
        print(f"{len(self.trials)}/{self._count} {done.seconds:.0f} s {done.mutant}\n    {how}", flush=True)


def _try_in_copies(
    mutants: Sequence[Mutant], stages: Sequence[Stage], jobs: int, seed: int, directory: Path, shown: _Shown
) -> None:
    """Try mutants whose code runs only when its module is imported: in copies of the checkout.

    :raises BrokenWithout: tests fail without a mutant
    """
    trees: SimpleQueue[Tree] = SimpleQueue()
    first = Tree(directory / "0")
    stages = [replace(stage, limit_s=jobs * stage.limit_s) for stage in timed(stages, first, seed)]
    trees.put(first)
    for number in range(1, jobs):
        trees.put(Tree(directory / str(number)))

    def with_a_tree(mutant: Mutant) -> Trial:
        tree = trees.get()
        try:
            return attempt(tree, mutant, stages, seed)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(with_a_tree, mutant) for mutant in mutants]):
            shown.add(future.result())


def _report(lived: Sequence[Mutant], count: int, seed: int) -> int:
    if not count:
        print("No mutant was tried.")
        return 2
    share = 1 - len(lived) / count
    print(
        f"\nseed {seed}: {count - len(lived)} of {count} noticed ({share:.0%}); "
        f"at least {WANTED:.0%} are wanted."
    )
    if lived:
        print(
            "No test notices these. Write one beside the module, or say in tests/mutants/explained.toml why "
            "nobody can see the difference:"
        )
        print(*(f"  {mutant}" for mutant in lived), sep="\n")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
