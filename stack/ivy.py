"""Download jars and archives with Ivy's command line, where Maven is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from stack.coordinate import ARCHIVE_TYPE, Archive, Coordinate
from stack.download_tool import run_tool
from stack.java import find_java
from stack.places import cache_dir

_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tidegate" module="stack"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
# Of a POM, Ivy's `default` is the artifact itself and its compile and runtime dependencies; `runtime` alone
# would leave the artifact out.
_DEPENDENCY = (
    '    <dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" conf="default->default"/>'
)
_ARCHIVE = (
    '    <dependency org="{0.of.group}" name="{0.of.artifact}" rev="{0.of.version}" conf="default->default" '
    'transitive="false"><artifact name="{0.of.artifact}" type="{1}" ext="{1}" '
    'm:classifier="{0.classifier}"/></dependency>'
)
_OLDEST_JAVA = 8


def find() -> Path | None:
    """``$TIDEGATE_IVY_JAR``, the jar that PySpark bundles, or the one of Debian's package ``ivy``."""
    return next((jar for jar in _candidates() if jar.is_file()), None)


def module(roots: Iterable[Coordinate]) -> str:
    """An Ivy module that does nothing but depend on ``roots``."""
    return _MODULE.format(dependencies="\n".join(map(_DEPENDENCY.format, roots)))


def archive_module(archive: Archive) -> str:
    """An Ivy module that asks for ``archive`` itself and nothing that its artifact depends on."""
    return _MODULE.format(dependencies=_ARCHIVE.format(archive, ARCHIVE_TYPE))


def download(jar: Path, roots: Iterable[Coordinate], into: Path) -> None:
    """Retrieve ``roots`` and their runtime dependencies into the directory ``into``.

    Raises:
        DownloadFailed: Ivy failed; its last lines are in the message.
        JavaMissing: no Java runs Ivy.
    """
    _retrieve(jar, module(roots), ("jar", "bundle"), into)


def download_archive(jar: Path, archive: Archive, into: Path) -> None:
    """Retrieve ``archive`` into the directory ``into``.

    Raises:
        DownloadFailed: Ivy failed; its last lines are in the message.
        JavaMissing: no Java runs Ivy.
    """
    _retrieve(jar, archive_module(archive), (ARCHIVE_TYPE,), into)


def _retrieve(jar: Path, wanted: str, types: Iterable[str], into: Path) -> None:
    """Run Ivy for the module ``wanted``.

    Ivy gets a home of its own: a local Maven repository that holds a POM without its jar makes the shared
    one fail. ``$TIDEGATE_IVY_SETTINGS`` names an ``ivysettings.xml`` for those who need a mirror.
    """
    description = into / "ivy.xml"
    description.write_text(wanted)
    settings = os.environ.get("TIDEGATE_IVY_SETTINGS")
    command: list[str | Path] = [find_java(_OLDEST_JAVA).executable, "-jar", jar, "-warn"]
    command += ["-settings", settings] if settings else []
    command += ["-cache", cache_dir() / "ivy", "-ivy", description, "-types", *types]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    run_tool("Ivy", command, cwd=into)


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("TIDEGATE_IVY_JAR"):
        yield Path(chosen).expanduser()
    if (pyspark := find_spec("pyspark")) is not None:  # found, not imported: that would take a second
        for place in pyspark.submodule_search_locations or ():
            yield from sorted(Path(place, "jars").glob("ivy-*.jar"))
    yield Path("/usr/share/java/ivy.jar")
