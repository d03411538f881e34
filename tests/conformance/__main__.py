"""``python -m tests.conformance FILE.jsonl ...``: run vectors; ``--list-kinds``: what is claimed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.registry import CHECKS
from tests.conformance.runner import Outcome, run_files


def main() -> int:
    """Print failing cases and a count; 1 if any case failed, 2 if there was nothing to run."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--list-kinds", action="store_true", help="print the kinds that the code claims")
    arguments = parser.parse_args()
    if arguments.list_kinds:
        print("\n".join(sorted(CHECKS)))
        return 0
    if not arguments.files:
        parser.error("name at least one file of cases")
    return _run(arguments.files)


def _run(files: list[Path]) -> int:
    counts: Counter[Outcome] = Counter()
    for result in run_files(files):
        counts[result.outcome] += 1
        if result.outcome is Outcome.FAILED:
            print(f"{result.case_id}: {result.detail}")
    print(", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome))
    return 1 if counts[Outcome.FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
