"""Downloads jars and archives with Ivy's command line, if Maven is not installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from stack.coordinate import ARCHIVE_TYPE, Archive, Coordinate
from stack.downloads.download_tool import run_tool
from stack.errors import DownloadFailed
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
# For a POM, Ivy's `default` means the artifact and its dependencies; `transitive="false"` leaves these out.
# `runtime` would leave out the artifact itself.
_DEPENDENCY = (
    '    <dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" conf="default->default" '
    'transitive="false"/>'
)
_ARCHIVE = (
    '    <dependency org="{0.of.group}" name="{0.of.artifact}" rev="{0.of.version}" conf="default->default" '
    'transitive="false"><artifact name="{0.of.artifact}" type="{1}" ext="{1}" '
    'm:classifier="{0.classifier}"/></dependency>'
)
#: Where Debian's package ``ivy`` puts the jar.
SYSTEM_IVY = Path("/usr/share/java/ivy.jar")
_OLDEST_JAVA = 8
_OLDEST_IVY = (2, 5, 2)
_VERSION = re.compile(r"^Implementation-Version: (\d+)\.(\d+)\.(\d+)", re.MULTILINE)


def find() -> Path:
    """Find Ivy: ``$TIDEGATE_IVY_JAR``, else PySpark's own jar, else the jar of Debian's package ``ivy``.

    With an Ivy before 2.5.2 a downloaded POM can read files of this machine and reach other hosts
    (CVE-2022-46751). Such a jar is passed over.

    Raises:
        DownloadFailed: no jar is new enough.
    """
    candidates = [jar for jar in _candidates() if jar.is_file()]
    for jar in candidates:
        if is_new_enough(jar):
            return jar
    oldest = ".".join(map(str, _OLDEST_IVY))
    found = "; ".join(f"{jar} is older, or no Ivy" for jar in candidates) or "none was found"
    raise DownloadFailed(
        f"Neither Maven nor an Ivy of {oldest} or newer is here ({found}): install Maven (`mvn`) with your "
        "system's package manager, or PySpark, which has such an Ivy (`make setup` in a checkout, else "
        "tidegate's extra `spark`), or point TIDEGATE_IVY_JAR to one."
    )


def module(wanted: Iterable[Coordinate]) -> str:
    """Return an Ivy module that depends on the jars ``wanted`` alone, without what they depend on."""
    return _MODULE.format(dependencies="\n".join(map(_DEPENDENCY.format, wanted)))


def archive_module(archive: Archive) -> str:
    """Return an Ivy module that asks for ``archive`` itself and nothing that its artifact depends on."""
    return _MODULE.format(dependencies=_ARCHIVE.format(archive, ARCHIVE_TYPE))


def download(jar: Path, wanted: Iterable[Coordinate], into: Path) -> None:
    """Retrieve the jars ``wanted``, and nothing that they depend on, into the directory ``into``.

    Raises:
        DownloadFailed: Ivy failed; its last lines are in the message.
        JavaMissing: there is no Java to run Ivy.
    """
    _retrieve(jar, module(wanted), ("jar", "bundle"), into)


def download_archive(jar: Path, archive: Archive, into: Path) -> None:
    """Retrieve ``archive`` into the directory ``into``.

    Raises:
        DownloadFailed: Ivy failed; its last lines are in the message.
        JavaMissing: there is no Java to run Ivy.
    """
    _retrieve(jar, archive_module(archive), (ARCHIVE_TYPE,), into)


def _retrieve(jar: Path, wanted: str, types: Iterable[str], into: Path) -> None:
    """Run Ivy for the module ``wanted``.

    Ivy gets a home of its own. In the shared home Ivy fails if the local Maven repository has a POM without
    its jar. Those who need a mirror name an ``ivysettings.xml`` in ``$TIDEGATE_IVY_SETTINGS``.
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
    if (pyspark := find_spec("pyspark")) is not None:  # not imported, since an import takes a second
        for place in pyspark.submodule_search_locations or ():
            yield from sorted(Path(place, "jars").glob("ivy-*.jar"))
    yield SYSTEM_IVY


def is_new_enough(jar: Path) -> bool:
    """Whether a file is an Ivy that may be used."""
    return _version(jar) >= _OLDEST_IVY


def _version(jar: Path) -> tuple[int, ...]:
    """Return the version in the jar's manifest.

    For a file that is no Ivy jar, return ``()``, which is below every version.
    """
    try:
        with ZipFile(jar) as members:
            manifest = members.read("META-INF/MANIFEST.MF").decode(errors="replace")
    except (OSError, KeyError, BadZipFile):
        return ()
    found = _VERSION.search(manifest)
    return tuple(map(int, found.groups())) if found else ()
