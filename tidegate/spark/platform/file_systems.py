"""Opens the directory of a URI: by which library, and with which login.

    file://                       pyarrow: files of this machine
    hdfs://                       pyarrow, by Hadoop's libhdfs
    s3a://, gs://, abfss://       obstore: objects (`tidegate.spark.platform.object_files`)

Spark reads and writes its own half of a checkpoint directory by Hadoop's libraries.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from tidegate.access.directory_uri import directory_uri
from tidegate.errors import SettingsError, brief
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.whole_files import TORN, WholeObjects, remove_file, write_whole

_OPENED: Final = 8
#: The beginning of what pyarrow says when a library of HDFS is missing.
_NO_LIBRARY: Final = "Unable to load lib"


class Place(NamedTuple):
    """A directory: the file system that has it, and its path there."""

    filesystem: fs.FileSystem
    path: str


def opened(uri: str, access: StoreAccess) -> Place:
    """Return the place of a directory's URI, without looking into it.

    Raises ``SettingsError`` for a URI that cannot be used, and for a file system that cannot be opened here.
    """
    return _opened(directory_uri(uri), access)


def opened_by_arrow(uri: str) -> Place:
    """Return the place of a directory for files that Arrow writes as streams (tables), of any scheme.

    Logins are those of the environment. Raises ``SettingsError`` for a URI that cannot be used and for a
    library that is missing, and ``OSError`` for a file system that does not answer.
    """
    named = f"s3://{uri.removeprefix('s3a://')}" if uri.startswith("s3a://") else uri
    try:
        return Place(*fs.FileSystem.from_uri(named))
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and not str(error).startswith(_NO_LIBRARY):
            raise
        raise _not_opened(uri, error, "docs/warehouse.md#running-it") from None


def find(file_uri: str, access: StoreAccess) -> str:
    """Return why a task does not find the file that the driver has written; empty if it does."""
    try:
        filesystem, path = opened(file_uri, access)
        if filesystem.get_file_info(path).type == fs.FileType.File:
            return ""
        why = "there is no such file on its machine"
    except (SettingsError, OSError) as error:
        why = brief(str(error))
    return f"does not find {file_uri}, which the driver has written: {why}"


def write_beside(file_uri: str, access: StoreAccess) -> str:
    """Return why a task cannot write and remove files beside this one; empty if it can."""
    filesystem, path = opened(file_uri, access)
    tried = f"{path}-{uuid.uuid4().hex}{TORN}"
    try:
        write_whole(filesystem, tried, b"", f"{tried}{TORN}")
        remove_file(filesystem, tried)
    except OSError as error:
        return f"reads {file_uri} and cannot write beside it: {brief(str(error))}"
    return ""


@lru_cache(_OPENED)
def _opened(uri: str, access: StoreAccess) -> Place:
    parts = urlsplit(uri)
    path = f"{parts.netloc.partition('@')[0]}{parts.path}"
    match parts.scheme:
        case "s3a" | "gs" | "abfss" | "abfs":
            return Place(fs.PyFileSystem(_objects(parts.scheme, parts.netloc, access)), path)
        case _:
            try:
                return Place(*fs.FileSystem.from_uri(uri))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise _not_opened(uri, error, "docs/spark-cluster.md#checkpoint-directories") from None


def _not_opened(uri: str, error: Exception, page: str) -> SettingsError:
    why = brief(str(error).partition("\n")[0])
    return SettingsError(
        f"The file system of {uri} cannot be opened on this machine ({why}): {page} says what it needs."
    )


def _objects(scheme: str, place: str, access: StoreAccess) -> WholeObjects:
    """Return the objects of a place. Only this needs obstore, so only this imports it."""
    try:
        from tidegate.spark.platform.object_files import object_files
    except ImportError as missing:
        raise SettingsError(
            f"Directories of {scheme}:// need the package obstore ({missing}): install tidegate[spark] anew."
        ) from None
    return object_files(scheme, place, access)
