"""Inputs that are led by coverage: Atheris keeps those that reach new code of tidegate, and damages them on.

Atheris is no dependency (docs/security.md#fuzzing). Its library ends the process that it fuzzes in. So
`tests.fuzz.led_target` imports the targets in a process of its own and forks one for each target. They print
findings as lines of JSON. A target begins with inputs that it draws, and draws some of the later ones.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from tests.fuzz.campaign import Account, Budget
from tests.fuzz.target import Target
from tests.fuzz.trial import Finding, attempt

_ROOT: Final = Path(__file__).parents[2]
_DRAWN: Final = 300
_INPUTS: Final = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_SHOWN: Final = 600
#: libFuzzer's own limits. An input has its time from `tests.fuzz.trial`, which gives it up earlier.
_LIMITS: Final = ("-timeout=300", "-rss_limit_mb=4096", "-print_final_stats=1")


def is_there() -> bool:
    """Whether Atheris can be imported."""
    return find_spec("atheris") is not None


def run_led(
    targets: Sequence[Target],
    seed: int,
    budget: Budget,
    heard: Callable[[Finding], None] = lambda _: None,
    module: str = "tests.fuzz.targets",
    instrumented: str = "tidegate",
) -> list[Account]:
    """Fuzz one target after the other; ``budget`` counts seconds of the clock here.

    ``module`` has the targets, and ``instrumented`` is the package whose coverage leads. ``heard`` is told
    the first finding of each kind at once.
    """
    weights = sum(target.weight for target in targets)
    accounts = {target.name: Account(target, Random(f"{seed}/{target.name}")) for target in targets}
    with TemporaryDirectory(prefix="fuzz-") as directory:
        jobs = [
            _job(each, seed, budget.inputs, budget.seconds * each.target.weight / weights, Path(directory))
            for each in accounts.values()
        ]
        own = [sys.executable, "-m", "tests.fuzz.led_target", module, instrumented, json.dumps(jobs)]
        begun = 0.0
        with subprocess.Popen(own, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
            assert process.stdout is not None
            for line in process.stdout:
                kind, name, told = json.loads(line)
                account = accounts[name]
                if kind == "begun":
                    begun = monotonic()
                    continue
                if kind == "ended":
                    account.seconds = monotonic() - begun
                    finding = _end(account, told, Path(directory) / name)
                else:
                    finding = _standing(account.target, told)
                if finding is not None and finding.signature not in account.findings:
                    account.findings[finding.signature] = finding
                    heard(finding)
        if process.returncode != 0:
            raise RuntimeError(f"the process of all targets ended with status {process.returncode}")
    return list(accounts.values())


def _job(account: Account, seed: int, inputs: int, seconds: float, directory: Path) -> tuple[str, list[str]]:
    """Write the first inputs, and return the target's name and the flags of libFuzzer."""
    own = directory / account.target.name
    corpus = own / "corpus"
    corpus.mkdir(parents=True)
    for number in range(_DRAWN):
        (corpus / f"{number:04d}").write_bytes(account.target.draw(account.chance))
    length = f"-runs={inputs}" if inputs else f"-max_total_time={max(1, round(seconds))}"
    flags = [
        length,
        f"-seed={seed % (2**31 - 1) + 1}",
        f"-artifact_prefix={own}/left-",
        *_LIMITS,
        str(corpus),
    ]
    return account.target.name, flags


def _end(account: Account, status: int, directory: Path) -> Finding | None:
    """Count the inputs of a target that has ended; it is a finding unless libFuzzer ended it in order."""
    said = (directory / "said").read_text(errors="replace")
    counted = _INPUTS.search(said)
    account.inputs = int(counted[1]) if counted else 0
    if status == 0:
        return None
    left = sorted(directory.glob("left-*"))
    what = f"its process ended with status {status}: ...{said[-_SHOWN:]}"
    data = left[0].read_bytes() if left else b""
    return Finding(account.target.name, data, what, (account.target.name, "ended"))


def _standing(target: Target, told: dict[str, Any]) -> Finding | None:
    """Return a finding, unless it is one of time and is gone without Atheris, which makes our code slow."""
    data, signature = bytes.fromhex(told["data"]), tuple(told["signature"])
    again = attempt(target, data)
    if again is None and signature[-1] != "time":
        return Finding(target.name, data, told["what"], signature)
    return again
