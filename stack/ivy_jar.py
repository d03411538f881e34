"""An Ivy jar through pip, for machines that have Python and Java but neither Maven nor Ivy.

It comes out of the source archive of the PyPI package pyspark (Apache-2.0), which bundles the jar; the
package itself is neither installed nor imported. The archive is large, so only the jar is kept.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from stack.download_tool import run_tool
from stack.errors import DownloadFailed
from stack.file_lock import file_lock
from stack.places import cache_dir

_PACKAGE: Final = "pyspark"
_VERSION: Final = "3.5.5"  # the 3.5 line is 100 MB smaller than the 4 line
_MEMBER: Final = f"{_PACKAGE}-{_VERSION}/deps/jars/ivy-2.5.1.jar"
_SIZE_MB: Final = 317


def fetch() -> Path:
    """The jar in the cache, downloaded when it is not there yet.

    Raises:
        DownloadFailed: pip failed, or what came has no such jar.
    """
    jar = cache_dir() / "ivy-jar" / Path(_MEMBER).name
    with file_lock(jar.with_suffix(".lock")):
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
                _take_out(_download(Path(scratch))).replace(jar)
    return jar


def _download(into: Path) -> Path:
    sys.stderr.write(
        f"Neither Maven nor an Ivy jar is here: pip downloads {_PACKAGE} {_VERSION} ({_SIZE_MB} MB) once, "
        "for the Ivy jar in it ...\n"
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--no-binary", _PACKAGE, "--dest", str(into)]
    run_tool("pip", [*command, f"{_PACKAGE}=={_VERSION}"], cwd=into)
    return into / f"{_PACKAGE}-{_VERSION}.tar.gz"


def _take_out(archive: Path) -> Path:
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extract(_MEMBER, archive.parent, set_attrs=False)
    except (OSError, tarfile.TarError, KeyError) as error:
        raise DownloadFailed(
            f"The Ivy jar {_MEMBER} could not be taken out of what pip downloaded ({error}): install Maven "
            "(`mvn`) with your system's package manager, or point TIDEGATE_IVY_JAR to an Ivy jar."
        ) from error
    return archive.parent / _MEMBER
