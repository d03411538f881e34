"""Downloads, checks and unpacks programs that are published as archives under Maven coordinates.

Each is unpacked once, and kept outside the checkout.
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
    """Return the directory with the content of ``archive``. It is downloaded unless the cache has all of it.

    The archive is unpacked only if its SHA-256 is that in ``allowed``, by default in ``stack/pinned.toml``.

    Raises:
        DownloadFailed: it is not pinned, there is no tool, the tool failed, or it brought another file.
        JavaMissing: the tool is Ivy, and there is no Java to run it.
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
    downloaded.unlink()  # it is three quarters as large as its content


def download(archive: Archive, into: Path) -> None:
    """Download ``archive`` into the directory ``into``, without a check of its SHA-256.

    Raises:
        DownloadFailed: there is no tool, or it failed.
        JavaMissing: the tool is Ivy, and there is no Java to run it.
    """
    mvn = maven.find()
    tool = "Maven" if mvn is not None else "Ivy"
    sys.stderr.write(f"{tool} downloads {archive.file_name} ({archive.size_mb} MB) once ...\n")
    if mvn is not None:
        maven.download_archive(mvn, archive, into)
    else:
        ivy.download_archive(ivy.find(), archive, into)
