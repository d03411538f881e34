"""``python -m tests.fuzz --minutes 10 --seed N --target NAME``: inputs for the targets, and what they found.

Exit status 0 when nothing was found, 1 otherwise. Each finding is stored below ``--findings``, and how to run
it again is printed with it.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tests.fuzz.campaign import Account, Budget, run
from tests.fuzz.coverage_led import is_there, run_led
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import Finding, attempt

_FINDINGS: Final = Path("fuzz-findings")
_ABSENT: Final = (
    "Atheris is not installed in this environment: `pip install atheris==3.0.0` (CPython 3.11 to 3.13 on "
    "Linux), or leave --engine away"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, and fuzz."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.engine == "atheris" and not is_there():
        parser.error(_ABSENT)
    is_led = asked.engine != "mutators" and is_there()
    targets = [TARGETS[name] for name in asked.target or TARGETS]
    gc.collect()
    gc.freeze()  # modules and seeds stay; only what inputs leave is looked through
    if asked.input is not None:
        return _repeat(targets, asked.input)
    seed = time.time_ns() // 10**9 if asked.seed is None else asked.seed
    engine = "Atheris" if is_led else "mutators"
    print(f"seed {seed}, by {engine}: {', '.join(target.name for target in targets)}", flush=True)

    def keep(finding: Finding) -> None:
        _keep(finding, seed, asked.findings)

    budget = Budget(60 * asked.minutes, asked.inputs)
    accounts = run_led(targets, seed, budget, keep) if is_led else run(targets, seed, budget, keep)
    _report(accounts, seed)
    return 1 if any(account.findings for account in accounts) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--engine",
        choices=("mutators", "atheris", "auto"),
        default="mutators",
        help="who makes the inputs: ours (default), Atheris, or Atheris where it is installed",
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="of processor time, over all targets (1)")
    parser.add_argument("--inputs", type=int, default=0, help="so many for each target, instead of minutes")
    parser.add_argument(
        "--seed", type=int, help="all inputs follow from it; by the clock where it is not given"
    )
    parser.add_argument(
        "--target", choices=sorted(TARGETS), action="append", help="one of them; all (default)"
    )
    parser.add_argument("--input", type=Path, help="give the targets the bytes of this file, and no others")
    parser.add_argument(
        "--findings", type=Path, default=_FINDINGS, help=f"where inputs that break are stored ({_FINDINGS})"
    )
    return parser


def _repeat(targets: Iterable[Target], file: Path) -> int:
    data = file.read_bytes()
    found = [finding for target in targets if (finding := attempt(target, data)) is not None]
    print(*found, sep="\n")
    return 1 if found else 0


def _keep(finding: Finding, seed: int, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    digest = blake2b(finding.data, digest_size=6).hexdigest()
    path = directory / f"{finding.target}-{digest}"
    path.write_bytes(finding.data)
    print(finding)
    print(f"  seed {seed}; again: python -m tests.fuzz --target {finding.target} --input {path}", flush=True)


def _report(accounts: Iterable[Account], seed: int) -> None:
    print(f"\nseed {seed}\n{'target':<18}{'inputs':>12}{'seconds':>10}{'findings':>10}")
    for account in accounts:
        print(
            f"{account.target.name:<18}{account.inputs:>12,}{account.seconds:>10.0f}{len(account.findings):>10}"
        )


if __name__ == "__main__":
    sys.exit(main())
