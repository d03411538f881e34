"""Tests whether pip takes a package with given hashes. It must not take a package with other hashes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from supply.requirements import Pin

_TIMEOUT_S: Final = 120
_PIP: Final = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")


def pip_takes(pin: Pin) -> bool:
    """Whether ``pip download --require-hashes`` brings the package under these hashes, as in `make setup`."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "requirements.txt")
        hashes = " ".join(f"--hash={each}" for each in sorted(pin.hashes))
        file.write_text(f"{pin.name}=={pin.version} {hashes}\n")
        options = ("--require-hashes", "--only-binary", ":all:", "--no-deps", "--requirement", str(file))
        done = subprocess.run(  # noqa: S603 - pip of this environment, with arguments of ours
            (*_PIP, *options, "--dest", scratch), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
        return done.returncode == 0
