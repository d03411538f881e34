"""``python -m tests.mutants --seed N``: a sample of small slips in the core, and those that no test notices.

Exit status 0 when 95 of 100 are noticed, 1 otherwise, 2 when nothing could be tried.
"""

from __future__ import annotations

import argparse
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

from tests.mutants.explained import explained, unexplained
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.tree import ROOT, Tree
from tests.mutants.trial import STAGES, BrokenWithout, Stage, Trial, attempt, timed

CORE: Final = ("tidegate/ranges", "tidegate/rangefeed", "tidegate/processor", "tidegate/raftlog")
WANTED: Final = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, try a sample, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws the sample; by the clock where it is not given")
    parser.add_argument("--sample", type=int, default=60, help="so many mutants (60)")
    parser.add_argument(
        "--jobs", type=int, default=2, help="so many at a time, each in a copy of the tree (2)"
    )
    parser.add_argument("--only", default="", help="mutants whose description has this text, parking.py:77")
    parser.add_argument("--units", action="store_true", help="the unit tests alone, without the simulation")
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
    try:
        trials = _try_all(sample, stages, asked.jobs, seed)
    except BrokenWithout as failure:
        print(failure)
        return 2
    return _report([done.mutant for done in trials if done.noticed_by is None], len(sample), seed)


def of_core() -> list[Mutant]:
    """Every mutant of the core's modules; generated ones are not mutated."""
    files = sorted(file for folder in CORE for file in (ROOT / folder).rglob("*.py"))
    return [
        mutant
        for file in files
        if not file.name.endswith("_pb2.py")
        for mutant in mutants_of(str(file.relative_to(ROOT)), file.read_bytes())
    ]


def _try_all(sample: Sequence[Mutant], stages: Sequence[Stage], jobs: int, seed: int) -> list[Trial]:
    with tempfile.TemporaryDirectory(prefix="tidegate-mutants-") as directory:
        trees: SimpleQueue[Tree] = SimpleQueue()
        first = Tree(Path(directory, "0"))
        stages = [replace(stage, limit_s=jobs * stage.limit_s) for stage in timed(stages, first, seed)]
        trees.put(first)
        for number in range(1, jobs):
            trees.put(Tree(Path(directory, str(number))))

        def with_a_tree(mutant: Mutant) -> Trial:
            tree = trees.get()
            try:
                return attempt(tree, mutant, stages, seed)
            finally:
                trees.put(tree)

        done = []
        with ThreadPoolExecutor(jobs) as pool:
            for future in as_completed([pool.submit(with_a_tree, mutant) for mutant in sample]):
                done.append(future.result())
                _print_trial(len(done), len(sample), done[-1])
        return done


def _print_trial(number: int, count: int, done: Trial) -> None:
    how = f"noticed by the {done.stage}: {done.noticed_by}" if done.noticed_by else "LIVED"
    print(f"{number}/{count} {done.seconds:.0f} s {done.mutant}\n    {how}", flush=True)


def _report(lived: Sequence[Mutant], count: int, seed: int) -> int:
    share = 1 - len(lived) / count if count else 1.0
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
