"""``python -m tests.conformance [FILE.jsonl ...]``: run vectors; ``--list-kinds``: what is claimed.

Without a file all of ``tests/conformance/vectors`` are run.

Cases of a kind that is not claimed are skipped, and so are those that use an option which this version
refuses as not supported yet. Cases without a kind are of kind changefeed, which is claimed group by group:
the kind of cf-enc-02 is changefeed.enc.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.conformance.case import Case, Malformed, kind_of, read_lines
from tests.conformance.registry import CHECKS
from tests.conformance.runner import Outcome, run_files

_VECTORS: Final = Path(__file__).parent / "vectors"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print failing cases and a count; 1 if any case failed, 2 if there was nothing to run."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE.jsonl",
        help="files of cases, one in a line; by default all of tests/conformance/vectors",
    )
    parser.add_argument(
        "--list-kinds",
        action="store_true",
        help="print the kinds that the code claims; with files, every kind in them and whether it is",
    )
    asked = parser.parse_args(arguments)
    if asked.list_kinds:
        print("\n".join(_kinds_in(asked.files) if asked.files else sorted(CHECKS)))
        return 0
    files = asked.files or sorted(_VECTORS.glob("*.jsonl"))
    if not files:
        parser.error(f"there are no files of cases in {_VECTORS}: name at least one")
    return _run(files)


def _kinds_in(files: list[Path]) -> list[str]:
    kinds = {_known_kind(line) for path in files for line in read_lines(path)}
    return [f"{kind}: {'claimed' if kind in CHECKS else 'not claimed'}" for kind in sorted(kinds)]


def _known_kind(case: Case | Malformed) -> str:
    if isinstance(case, Malformed):
        sys.exit(f"{case.place}: {case.reason}")
    try:
        return kind_of(case)
    except ValueError as error:
        sys.exit(f"{case.get('id', '?')}: {error}")


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
