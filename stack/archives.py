"""Programs published as archives by Maven coordinates: downloaded and unpacked once, outside the checkout."""

from __future__ import annotations

import sys
import tarfile
import zlib
from pathlib import Path

from stack import ivy, ivy_jar, maven
from stack.coordinate import Archive
from stack.errors import DownloadFailed
from stack.places import cache_dir
from stack.whole import whole_directory


def unpacked(archive: Archive) -> Path:
    """The directory that holds what is in ``archive``; downloads it unless the cache holds it whole.

    Raises:
        DownloadFailed: the tool failed, there was none and pip could not get it, or it is no archive.
        JavaMissing: the tool is Ivy and no Java runs it.
    """
    home = cache_dir() / "archives" / archive.file_name.removesuffix(".tar.gz")
    whole_directory(home, lambda into: _fill(archive, into), pattern="**/*")
    return home


def _fill(archive: Archive, into: Path) -> None:
    _download(archive, into)
    downloaded = into / archive.file_name
    try:
        with tarfile.open(downloaded, "r:gz") as tar:
            tar.extractall(into, filter="data")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DownloadFailed(
            f"What came as {archive.file_name} cannot be unpacked ({error}): check the free space of {into} "
            "and what a proxy may have sent in its place, then try again."
        ) from error
    downloaded.unlink()  # three quarters of what it takes unpacked


def _download(archive: Archive, into: Path) -> None:
    mvn = maven.find()
    tool = "Maven" if mvn is not None else "Ivy"
    sys.stderr.write(f"{tool} downloads {archive.file_name} ({archive.size_mb} MB) once ...\n")
    if mvn is not None:
        maven.download_archive(mvn, archive, into)
    else:
        ivy.download_archive(ivy.find() or ivy_jar.fetch(), archive, into)
