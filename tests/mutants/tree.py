"""A copy of the checkout, into which mutants are put: the checkout itself never has one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutations import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]
#: Runs its arguments with 8 GiB of memory at most, ten times what tests need: a loop that never ends may
#: collect what it finds. What is reserved and not used does not count: a kernel reserves 4 GiB of addresses.
_BOUNDED: Final = ("/bin/sh", "-c", 'ulimit -d 8388608; exec "$@"', "bounded")


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run of tests; ``passed`` is ``None`` when it was stopped at its time limit."""

    passed: bool | None
    output: str


class Tree:
    """A copy at ``root`` of every file of ``checkout`` that git knows, or would add."""

    def __init__(self, root: Path, checkout: Path = ROOT) -> None:
        self.root = root
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=checkout, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (checkout / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, root / name)

    @contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        """Within the context the copy has the mutant."""
        file = self.root / mutant.path
        source = file.read_bytes()
        try:
            self._write(file, mutant.put_into(source))
            yield
        finally:
            self._write(file, source)

    def _write(self, file: Path, source: bytes) -> None:
        """Write it, and drop what was compiled: a mutant may have the size and the second of its source."""
        file.write_bytes(source)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()

    def test(self, arguments: Sequence[str], limit_s: float) -> Ended:
        """Run pytest in the copy; after ``limit_s`` seconds it is killed with all that it has started."""
        pytest = sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"
        process = subprocess.Popen(
            [*_BOUNDED, *pytest, *arguments],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root)},  # before the checkout that is installed
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Ended(None, process.communicate()[0])
        return Ended(process.returncode == 0, output)
