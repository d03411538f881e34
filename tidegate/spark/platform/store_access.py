"""How a job reaches object stores: Spark by Hadoop's libraries, and tidegate by its own client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_HADOOP: Final = "spark.hadoop."
_STORES: Final = ("fs.s3a.", "fs.gs.", "fs.azure.")
_S3: Final = "fs.s3a."
#: The parts of a login belong together: the environment completes no login of Spark's properties.
_LOGIN: Final = {
    "AWS_ACCESS_KEY_ID": "fs.s3a.access.key",
    "AWS_SECRET_ACCESS_KEY": "fs.s3a.secret.key",
    "AWS_SESSION_TOKEN": "fs.s3a.session.token",
}
#: Of two variables for one property the later one counts.
_PLACE: Final = (
    ("AWS_ENDPOINT_URL", "fs.s3a.endpoint"),
    ("AWS_ENDPOINT_URL_S3", "fs.s3a.endpoint"),
    ("AWS_DEFAULT_REGION", "fs.s3a.endpoint.region"),
    ("AWS_REGION", "fs.s3a.endpoint.region"),
)
_PATH_STYLE: Final = "fs.s3a.path.style.access"


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The properties by which a job reaches object stores: Spark's, and the environment's.

    The repr shows none of them.

    ``properties`` are Hadoop's names with their values, such as ``fs.s3a.endpoint``. They travel to tasks,
    with the secrets in them.
    """

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, conf: Mapping[str, str], environ: Mapping[str, str]) -> StoreAccess:
        """Return the properties in ``conf``, Spark's, and those of ``environ`` that ``conf`` does not have.

        The login of ``environ`` counts only if ``conf`` has no key of S3.
        """
        found = {variable[1]: environ[variable[0]] for variable in _PLACE if environ.get(variable[0])}
        said = {
            name.removeprefix(_HADOOP): value
            for name, value in conf.items()
            if name.startswith(tuple(_HADOOP + store for store in _STORES))
        }
        if not any(name.startswith(_S3) and name.endswith(".access.key") for name in said):
            found |= {name: environ[each] for each, name in _LOGIN.items() if environ.get(each)}
        found |= said
        if "fs.s3a.endpoint" in found:  # a private store seldom has a host name for each bucket
            found.setdefault(_PATH_STYLE, "true")
        return cls(tuple(sorted(found.items())))

    @classmethod
    def of_environment(cls) -> StoreAccess:
        """Return the properties in the environment of this process."""
        return cls.of({}, os.environ)

    def for_spark(self) -> dict[str, str]:
        """Return the properties by Spark's names, such as ``spark.hadoop.fs.s3a.endpoint``."""
        return {_HADOOP + name: value for name, value in self.properties}

    def s3(self, bucket: str, name: str) -> str:
        """Return a property of a bucket; empty if nobody set it."""
        found = dict(self.properties)
        return found.get(f"fs.s3a.bucket.{bucket}.{name}") or found.get(_S3 + name, "")

    def get(self, name: str) -> str:
        """Return a property; empty if nobody set it."""
        return dict(self.properties).get(name, "")
