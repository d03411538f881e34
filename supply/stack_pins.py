"""Writes ``stack/pinned.toml``: what the stack's servers depend on, with the SHA-256 of every file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from stack.coordinate import Archive
from stack.downloads import archives, hadoop_s3, maven, spark_connector
from stack.downloads.jars import JarSet
from stack.errors import DownloadFailed
from stack.pinned import PINNED_FILE, sha256_of
from stack.recipes import connect_recipe, kafka_recipe, registry_recipe

JAR_SETS: Final = (
    kafka_recipe.JARS,
    connect_recipe.JARS,
    connect_recipe.AVRO,
    *map(spark_connector.connector_jars, spark_connector.VERSIONS),
    hadoop_s3.JARS,
)
ARCHIVES: Final = (registry_recipe.PROGRAM, connect_recipe.JDBC)

_HEAD: Final = """\
# Every jar and archive that the stack downloads, with its SHA-256. Made by `make pins`.
"""


def write() -> None:
    """Download everything anew with Maven and write what came.

    Raises:
        DownloadFailed: there is no Maven, or it failed.
    """
    PINNED_FILE.write_text(text_of(pins_of(JAR_SETS, ARCHIVES)))


def pins_of(sets: Iterable[JarSet], programs: Iterable[Archive] = ()) -> dict[str, dict[str, str]]:
    """Download the sets and archives anew with Maven. Return the SHA-256 of each file, by table.

    Raises:
        DownloadFailed: there is no Maven, or it failed.
    """
    mvn = maven.find()
    if mvn is None:
        raise DownloadFailed(
            "Only Maven looks up what a jar depends on: install `mvn`, then run `make pins` again."
        )
    tables = {f'jars."{jars.label}"': _jars(mvn, jars) for jars in sets}
    return {**tables, "archives": {str(archive): _archive(archive) for archive in programs}}


def text_of(tables: Mapping[str, Mapping[str, str]], head: str = _HEAD) -> str:
    """Return the file: a table for each set, a sorted line for each file."""
    return head + "".join(
        f"\n[{table}]\n" + "".join(f'"{name}" = "{digest}"\n' for name, digest in sorted(lines.items()))
        for table, lines in tables.items()
    )


def _jars(mvn: Path, jars: JarSet) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as into:
        came = maven.download_all(mvn, jars.roots, Path(into), jars.without)
        return {
            str(coordinate): sha256_of(jar)
            for coordinate, jar in came.items()
            if not jars.only or coordinate.artifact.startswith(jars.only)
        }


def _archive(archive: Archive) -> str:
    with tempfile.TemporaryDirectory() as into:
        archives.download(archive, Path(into))
        return sha256_of(Path(into) / archive.file_name)
