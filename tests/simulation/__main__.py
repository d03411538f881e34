"""``python -m tests.simulation --seed N``: one run, or many, and what they found.

Exit status 0 when every run was as it should be, 1 otherwise.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

from tests.simulation.defects import DEFECTS
from tests.simulation.plan import PROFILES, draw
from tests.simulation.run import CALM_S, Outcome, Run
from tidegate.kernel.kernel_mode import VARIABLE, KernelMode, kernel_mode

#: In one of so many seeds the kernel runs beside Python, and a difference ends the worker.
_SEEDS_PER_CHECK: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Parse the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first one; by the clock where it is not given")
    parser.add_argument("--runs", type=int, default=1, help="so many seeds from --seed on")
    parser.add_argument("--minutes", type=float, default=0.0, help="seeds from --seed on, for so long")
    parser.add_argument("--cpu-seconds", type=float, default=0.0, help="the same, by the time computed")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="fast")
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="put into the code on purpose")
    parser.add_argument("--first", action="store_true", help="stop at the first run that finds something")
    parser.add_argument("--sound", action="store_true", help="run what finds the defect without it as well")
    parser.add_argument(
        "--calm", type=float, default=CALM_S, help=f"virtual seconds for coming to rest ({CALM_S:.0f})"
    )
    parser.add_argument("--subscribers", action="store_true", help="subscribe to the tables of all feeds")
    parser.add_argument("--verbose", action="store_true", help="print what everybody says")
    asked = parser.parse_args(arguments)
    _fix_order_of_sets(arguments)
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")  # a killed process had it
    gc.freeze()  # every run ends with a garbage collection, which need not look at modules
    begun = time.monotonic()
    first = time.time_ns() // 10**9 if asked.seed is None else asked.seed
    seed, found = first, 0
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    while (
        seed < first + asked.runs
        or time.monotonic() - begun < 60 * asked.minutes
        or time.process_time() < asked.cpu_seconds
    ):
        if cpus:
            # Threads take turns. To hand a turn over to another CPU costs a quarter more computing, and half
            # of the time if that CPU is busy.
            os.sched_setaffinity(0, {cpus[(os.getpid() + seed) % len(cpus)]})
        with DEFECTS[asked.defect]() if asked.defect else nullcontext():
            echo = print if asked.verbose else None
            plan, kernel = draw(seed, PROFILES[asked.profile]), _kernel(seed, asked.defect)
            outcome = Run(plan, echo, asked.calm, kernel, subscribers=asked.subscribers).run()
        print(_summary(outcome), flush=True)
        if outcome.faults:
            found += 1
            for fault in outcome.faults[:20]:
                print(f"  {fault}")
            defect = f" --defect {asked.defect}" if asked.defect else ""
            command = f"{VARIABLE}={kernel.value} python -m tests.simulation"
            subscribers = " --subscribers" if asked.subscribers else ""
            print(f"reproduce: {command} --profile {asked.profile} --seed {seed}{defect}{subscribers}")
            if asked.sound and asked.defect:
                sound = Run(plan, calm_s=asked.calm, kernel=kernel).run()
                print(f"without the defect: {_summary(sound)}")
            if asked.first:
                break
        seed += 1
    return 1 if found else 0


def _kernel(seed: int, defect: str | None) -> KernelMode:
    """Return the mode of the kernel in a run: that of the environment, or otherwise in some runs the check of
    Python.

    The kernel does not check Python with a planted defect: it would find the defect before the judge, and the
    judge is to be tested.
    """
    if VARIABLE in os.environ:
        return kernel_mode()
    return KernelMode.CHECK if defect is None and seed % _SEEDS_PER_CHECK == 0 else KernelMode.OFF


def _fix_order_of_sets(arguments: Sequence[str]) -> None:
    """Make the iteration order of sets of texts the same in each process: by default Python draws it at
    random."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *arguments])


def _summary(outcome: Outcome) -> str:
    return (
        f"seed {outcome.seed}: {'FAILED' if outcome.faults else 'ok'}, {outcome.versions} versions, "
        f"{outcome.rows} records, {outcome.processes} processes, {outcome.rebalances} rebalances, "
        f"{outcome.fenced} fenced, {outcome.virtual_s:.0f} s, {outcome.actions} actions, {outcome.digest}"
        + (f", {outcome.subscriptions} subscriptions" if outcome.subscriptions else "")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
