"""Maven coordinates of artifacts and archives."""

from __future__ import annotations

from typing import NamedTuple


class Coordinate(NamedTuple):
    """One published artifact: ``group:artifact:version``."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return ":".join(self)

    @property
    def file_name(self) -> str:
        """The name that Maven and Ivy give to the downloaded jar."""
        return f"{self.artifact}-{self.version}.jar"


class Archive(NamedTuple):
    """A ``.tar.gz`` published beside an artifact's jar, named by a classifier.

    Attributes:
        of: the artifact.
        classifier: which of its archives it is, e.g. ``plugin``.
        size_mb: how many MB are downloaded, for the person who waits.
    """

    of: Coordinate
    classifier: str
    size_mb: int

    def __str__(self) -> str:
        return f"{self.of}:{ARCHIVE_TYPE}:{self.classifier}"

    @property
    def file_name(self) -> str:
        """The name that Maven and Ivy give to the downloaded file."""
        return f"{self.of.artifact}-{self.of.version}-{self.classifier}.{ARCHIVE_TYPE}"


ARCHIVE_TYPE = "tar.gz"
