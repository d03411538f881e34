"""The pinned Python packages: ``constraints.txt`` has their versions, ``requirements/`` the same with hashes.

pip takes the files of ``requirements/`` with ``--require-hashes``: a file with another SHA-256 is not
installed. A package has the hashes of all files of its release, for every platform and Python, since a file
that pip would not choose does no harm in the list.

* ``build.txt``: the build backends and what they need, installed first, so that no others build a package;
* ``worker.txt``: what the image of the worker holds;
* ``demo.txt``: what ``make demo`` installs, which needs neither Spark nor what checks the code;
* ``all.txt``: what ``make setup`` installs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from supply.errors import SupplyError

VERSIONS: Final = "constraints.txt"
BUILD: Final = "requirements/build.txt"
WORKER: Final = "requirements/worker.txt"
DEMO: Final = "requirements/demo.txt"
ALL: Final = "requirements/all.txt"

#: The pins are those for the oldest Python that we run on, on Linux, whatever machine writes them.
_PYTHON: Final = ("--python-version", "3.11")
_PLATFORM: Final = "x86_64-unknown-linux-gnu"
_FORM: Final = ("--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-config", "--quiet")
_BACKENDS: Final = "cython\nhatchling\nsetuptools\nsetuptools-scm\n"
_TIMEOUT_S: Final = 600
_HASH: Final = re.compile(r"--hash=(sha256:[0-9a-f]{64})(?!\S)")


class Pin(NamedTuple):
    """One package of a pinned version; ``hashes`` are those of the files of its release."""

    name: str
    version: str
    hashes: frozenset[str] = frozenset()


def read(file: Path) -> dict[str, Pin]:
    """Return the pins of a file, by the normal form of their names.

    Raises:
        SupplyError: a line is no pin of one version.
    """
    text = file.read_text().replace("\\\n", " ")
    pins = (_pin(line, file) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {pin.name: pin for pin in pins}


def write(checkout: Path, options: Sequence[str] = ()) -> None:
    """Write all files. Versions in ``constraints.txt`` stay, unless ``options`` of uv ask for others.

    Raises:
        SupplyError: uv failed; its message says why.
    """
    pin_packages(checkout, VERSIONS, "pyproject.toml", "--all-extras", *options)
    hashed = ("--generate-hashes", "--constraints", VERSIONS)
    pin_packages(checkout, ALL, "pyproject.toml", "--all-extras", *hashed)
    pin_packages(checkout, WORKER, "pyproject.toml", "--extra", "worker", *hashed)
    demo = ("--extra", "worker", "--extra", "stack", "--extra", "demo")
    pin_packages(checkout, DEMO, "pyproject.toml", *demo, *hashed)
    pin_packages(checkout, BUILD, "-", *hashed, asked=_BACKENDS)


def pin_packages(
    checkout: Path, into: str, source: str, *options: str, asked: str = "", platform: str = _PLATFORM
) -> None:
    """Write the pins of what ``source`` asks for into the file ``into``. Versions that ``into`` has stay.

    ``source`` and ``into`` are paths in ``checkout``. The source ``-`` stands for the lines of ``asked``.

    Raises:
        SupplyError: uv failed; its message says why.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", source, "--output-file", into]
    environment = {**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "make pins"}  # else it writes its own arguments
    done = subprocess.run(  # noqa: S603 - uv of this environment, with arguments of ours
        [*command, *_PYTHON, "--python-platform", platform, *_FORM, *options],
        cwd=checkout,
        env=environment,
        input=asked,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SupplyError(f"uv could not resolve {into} (status {done.returncode}):\n{done.stderr.strip()}")


def _pin(line: str, file: Path) -> Pin:
    written, *_ = line.split(" --hash=", 1)
    requirement = Requirement(written.strip())
    match list(requirement.specifier):
        case [only] if only.operator == "==" and not only.version.endswith("*"):
            return Pin(canonicalize_name(requirement.name), only.version, frozenset(_HASH.findall(line)))
    raise SupplyError(f"{file} names no single version of {requirement.name}: {written.strip()!r}.")
