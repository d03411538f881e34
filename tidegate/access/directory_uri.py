"""The names of directories that a Spark job and tidegate have to find at the same place.

Spark and tidegate reach a directory by different libraries. If a name led the two to different places, files
that belong together would be separated. So one table has every scheme that is allowed, and all others are
refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from tidegate.errors import SettingsError

_SCHEMED: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
#: Characters of object names that libraries escape, each in its own way.
_ODD: Final = re.compile(r"[^A-Za-z0-9_.=+/-]")
FILE: Final = "file"


class Scheme(NamedTuple):
    """A kind of file system: its name for Spark, what its URIs name first, and an example."""

    spark: str
    place: str
    example: str


#: Spark itself knows ``s3`` only under the name ``s3a``.
SCHEMES: Final = {
    FILE: Scheme(FILE, "absolute path", "file:///path"),
    "s3a": Scheme("s3a", "bucket", "s3a://bucket/path"),
    "s3": Scheme("s3a", "bucket", "s3a://bucket/path"),
    "gs": Scheme("gs", "bucket", "gs://bucket/path"),
    "abfss": Scheme("abfss", "container", "abfss://container@account.dfs.core.windows.net/path"),
    "abfs": Scheme("abfs", "container", "abfs://container@account.dfs.core.windows.net/path"),
    "hdfs": Scheme("hdfs", "name node", "hdfs://namenode:8020/path"),
}
_KNOWN: Final = ", ".join(f"{name}://" for name in SCHEMES)


def directory_uri(named: str) -> str:
    """Return the URI by which Spark and tidegate find a directory that is named by a path or by a URI.

    ``data`` becomes ``file:///here/data``, and ``s3://bucket/data/`` becomes ``s3a://bucket/data``.

    Raises ``SettingsError`` for a scheme that is not in the table, and for a URI that lacks what its scheme
    needs. It also raises for a login, a port (except of HDFS), options, and characters that libraries escape
    differently.
    """
    schemed = _SCHEMED.match(named)
    if schemed is None:
        return Path(named).absolute().as_uri()
    name = schemed[1].lower()
    scheme = SCHEMES.get(name)
    if scheme is None:
        shown = _without_login(named)
        raise SettingsError(
            f"The directory {shown} is on no file system that tidegate knows ({name}:). Name a path, or a "
            f"URI of {_KNOWN}, as in s3a://bucket/path. A path that begins like this needs ./ in front: "
            f"./{shown}."
        )
    parts = urlsplit(named)
    return _local(named, parts) if name == FILE else _remote(named, parts, scheme)


def _local(named: str, parts: SplitResult) -> str:
    if parts.netloc not in ("", "localhost"):
        raise SettingsError(
            f"The directory {named} is a file of the machine {parts.netloc}: name a path that every machine "
            "has mounted, as in file:///path, or another file system."
        )
    path = unquote(parts.path)
    if not path.startswith("/"):
        raise _lacks(named, SCHEMES[FILE])
    return Path(path).as_uri()


def _remote(named: str, parts: SplitResult, scheme: Scheme) -> str:
    for mark, part in (("?", parts.query), ("#", parts.fragment)):
        if part:
            raise SettingsError(
                f"The directory {_without_login(named)} has a part behind '{mark}', which Spark would take "
                "for a name: leave it away, and give options by --conf spark.hadoop.NAME=VALUE."
            )
    is_azure, is_hdfs = "@" in scheme.example, scheme.spark == "hdfs"
    login, _, host = parts.netloc.rpartition("@")
    if (login and not is_azure) or (":" in parts.netloc and not is_hdfs):
        raise SettingsError(
            f"The directory {_without_login(named)} has a port or a login in its name, which logs would "
            "show: leave it away, and give it by --conf spark.hadoop.NAME=VALUE or in the environment "
            "(docs/spark-cluster.md#checkpoint-directories)."
        )
    if not host or (is_azure and ("." not in host or not login)):
        raise _lacks(named, scheme)
    path = parts.path.rstrip("/")
    if (odd := _ODD.search(path)) is not None:
        raise SettingsError(
            f"The directory {named} has the character {odd[0]!r} in its name, which not every library writes "
            "alike: use letters, digits, and any of - _ . = + / instead."
        )
    return f"{scheme.spark}://{parts.netloc}{path}"


def _lacks(named: str, scheme: Scheme) -> SettingsError:
    return SettingsError(f"The directory {named} names no {scheme.place}: write it like {scheme.example}.")


def _without_login(named: str) -> str:
    """Return the URI with ``***`` in place of what stands before the ``@``, which may be a password.

    If the scheme is Azure's, a name without a colon before the ``@`` is kept, since it names a container.
    """
    may_be_container = named.lower().startswith("abfs")
    return re.sub(r"//[^/@]*:[^/@]*@" if may_be_container else r"//[^/@]*@", "//***@", named)
