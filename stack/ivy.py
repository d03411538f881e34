"""Download jars with Ivy's command line, where Maven is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from stack.coordinate import Coordinate
from stack.download_tool import run_tool
from stack.java import find_java
from stack.places import cache_dir

_MODULE = """\
<ivy-module version="2.0">
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
_OLDEST_JAVA = 8


def find() -> Path | None:
    """``$TIDEGATE_IVY_JAR``, the jar that PySpark bundles, or the one of Debian's package ``ivy``."""
    return next((jar for jar in _candidates() if jar.is_file()), None)


def module(roots: Iterable[Coordinate]) -> str:
    """An Ivy module that does nothing but depend on ``roots``."""
    return _MODULE.format(dependencies="\n".join(map(_DEPENDENCY.format, roots)))


def download(jar: Path, roots: Iterable[Coordinate], into: Path) -> None:
    """Retrieve ``roots`` and their runtime dependencies into the directory ``into``.

    Ivy gets a home of its own: a local Maven repository that holds a POM without its jar makes the shared
    one fail. ``$TIDEGATE_IVY_SETTINGS`` names an ``ivysettings.xml`` for those who need a mirror.

    Raises:
        DownloadFailed: Ivy failed; its last lines are in the message.
        JavaMissing: no Java runs Ivy.
    """
    description = into / "ivy.xml"
    description.write_text(module(roots))
    settings = os.environ.get("TIDEGATE_IVY_SETTINGS")
    command: list[str | Path] = [find_java(_OLDEST_JAVA).executable, "-jar", jar, "-warn"]
    command += ["-settings", settings] if settings else []
    command += ["-cache", cache_dir() / "ivy", "-ivy", description, "-types", "jar", "bundle"]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    run_tool("Ivy", command, cwd=into)


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("TIDEGATE_IVY_JAR"):
        yield Path(chosen).expanduser()
    if (pyspark := find_spec("pyspark")) is not None:  # found, not imported: that would take a second
        for place in pyspark.submodule_search_locations or ():
            yield from sorted(Path(place, "jars").glob("ivy-*.jar"))
    yield Path("/usr/share/java/ivy.jar")
