"""Programs published as archives by Maven coordinates: downloaded, checked and unpacked once.

They are kept outside the checkout.
"""

from __future__ import annotations

import sys
import tarfile
import zlib
from pathlib import Path

from stack.coordinate import Archive
from stack.downloads import ivy, maven
from stack.downloads.whole import whole_directory
from stack.errors import DownloadFailed
from stack.pinned import Pinned, check_download, pinned
from stack.places import cache_dir


def unpacked(archive: Archive, allowed: Pinned | None = None) -> Path:
    """The directory that holds what is in ``archive``; downloads it unless the cache holds it whole.

    Before any of it is unpacked, its SHA-256 must be that in ``allowed``, by default in
    ``stack/pinned.toml``.

    Raises:
        DownloadFailed: it is not pinned, there is no tool, it failed, or it brought another file.
        JavaMissing: the tool is Ivy and no Java runs it.
    """
    expected = (allowed or pinned()).archive(str(archive))
    home = cache_dir() / "archives" / f"{archive.file_name.removesuffix('.tar.gz')}-{expected[:12]}"
    whole_directory(home, lambda into: _fill(archive, expected, into), pattern="**/*")
    return home


def _fill(archive: Archive, expected: str, into: Path) -> None:
    download(archive, into)
    downloaded = into / archive.file_name
    check_download(downloaded, expected)
    try:
        with tarfile.open(downloaded, "r:gz") as tar:
            tar.extractall(into, filter="data")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DownloadFailed(
            f"What came as {archive.file_name} cannot be unpacked ({error}): check the free space of {into} "
            "and what a proxy may have sent in its place, then try again."
        ) from error
    downloaded.unlink()  # three quarters of what it takes unpacked


def download(archive: Archive, into: Path) -> None:
    """Bring ``archive`` into the directory ``into``, unchecked.

    Raises:
        DownloadFailed: there is no tool, or it failed.
        JavaMissing: the tool is Ivy and no Java runs it.
    """
    mvn = maven.find()
    tool = "Maven" if mvn is not None else "Ivy"
    sys.stderr.write(f"{tool} downloads {archive.file_name} ({archive.size_mb} MB) once ...\n")
    if mvn is not None:
        maven.download_archive(mvn, archive, into)
    else:
        ivy.download_archive(ivy.find(), archive, into)
