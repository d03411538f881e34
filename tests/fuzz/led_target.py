"""``python -m tests.fuzz.led_target MODULE INSTRUMENTED JOBS``: targets under Atheris, each in a fork.

`tests.fuzz.coverage_led` runs it, and reads its lines of JSON: what it tells, the target's name, and more.
This module imports nothing that imports tidegate, because Atheris instruments modules while they are
imported. That takes longer than the import itself, so it is done once for all targets.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

#: One in so many changes draws an input. libFuzzer makes several at once: more would leave few others.
_DRAWN: Final = 8


def main(arguments: Sequence[str]) -> None:
    """Fuzz one target after the other."""
    module, instrumented, jobs = arguments
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=[instrumented]):
        targets = import_module(module).TARGETS
        attempt = import_module("tests.fuzz.trial").attempt
    for name, flags in json.loads(jobs):
        _tell("begun", name, None)
        fork = os.fork()
        if fork == 0:
            _fuzz(atheris, attempt, targets[name], flags)
        _, status = os.waitpid(fork, 0)
        _tell("ended", name, os.waitstatus_to_exitcode(status))


def _fuzz(atheris: Any, attempt: Callable[[Any, bytes], Any], target: Any, flags: Sequence[str]) -> None:
    """Fuzz until libFuzzer ends this process. What it says goes to a file beside the corpus."""
    known: set[tuple[str, ...]] = set()

    def take(data: bytes) -> None:
        finding = attempt(target, data)
        if finding is not None and finding.signature not in known:
            known.add(finding.signature)
            told = {"data": finding.data.hex(), "what": finding.what, "signature": finding.signature}
            _tell("finding", target.name, told)  # nothing else is left of this process

    def change(data: bytes, most: int, seed: int) -> bytes:
        changed: bytes = atheris.Mutate(data, most) if seed % _DRAWN else target.draw(Random(seed))
        return changed[:most]

    try:
        with (Path(flags[-1]).parent / "said").open("wb") as said:
            os.dup2(said.fileno(), sys.stderr.fileno())
        atheris.Setup([sys.argv[0], *flags], take, custom_mutator=change)
        atheris.Fuzz()
    finally:
        os._exit(1)


def _tell(kind: str, name: str, what: object) -> None:
    print(json.dumps((kind, name, what)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
