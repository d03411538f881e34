"""Writes and reads files that are there as a whole or not at all ("Files of a checkpoint directory" in
docs/protocols/spark-files.md).
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pyarrow import fs

from tidegate.errors import StoreAway, brief

#: The errors of file systems and mounts without hard links, or with too many of one file.
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)

#: The end of the name of a file that is being written, or whose writer died while it wrote.
TORN: Final = ".torn"


class WholeObjects(fs.FileSystemHandler):  # type: ignore[misc]
    """Objects as files of pyarrow. An object appears with its last byte, so it needs no unfinished name."""

    def put(self, path: str, content: bytes) -> None:
        """Store the object, or replace it. Raises ``OSError``."""
        raise NotImplementedError

    def put_first(self, path: str, content: bytes) -> bool:
        """Store the object if there is none; return whether there was none. Raises ``OSError``."""
        raise NotImplementedError


def write_whole(filesystem: fs.FileSystem, path: str, content: bytes, torn: str = "") -> None:
    """Write the file, or replace it. Its directory exists. Raises ``OSError``.

    On a file system it is written under the name ``torn`` and moved. A path must have one writer at a time
    unless ``torn`` is the writer's own, since the default name is always the same. A write that fails
    leaves no unfinished file, unless it is the only copy (``read_replaced``).
    """
    if (objects := _objects_of(filesystem)) is not None:
        objects.put(path, content)
        return
    torn = torn or f"{path}{TORN}"
    _write_torn(filesystem, torn, content)
    if filesystem.type_name == "hdfs":  # it moves no file over another
        with suppress(FileNotFoundError):
            filesystem.delete_file(path)
        filesystem.move(torn, path)
        return
    with _removing(filesystem, torn):
        filesystem.move(torn, path)


def write_first(filesystem: fs.FileSystem, path: str, content: bytes) -> bytes:
    """Write the file unless there is one, and return the content that it has then. Its directory exists.

    Of several writers at a time one wins, and all return its content. Raises ``OSError``.
    """
    objects = _objects_of(filesystem)
    is_first = (
        objects.put_first(path, content) if objects is not None else _moved_first(filesystem, path, content)
    )
    if is_first:
        return content
    stored = read_whole(filesystem, path)
    if stored is None:
        raise OSError(f"{path} was removed while it was written")
    return stored


def keeps_the_first(filesystem: fs.FileSystem, path: str, content: bytes) -> bool:
    """Return whether the file system refuses a further "first" write of a file that is there.

    The file has this content already. So a store that ignores the condition and writes it again does no harm.
    Raises ``OSError``.
    """
    objects = _objects_of(filesystem)
    return objects is None or not objects.put_first(path, content)


def read_whole(filesystem: fs.FileSystem, path: str) -> bytes | None:
    """Return the file's content, or ``None`` when there is no such file.

    Raises ``OSError`` for other failures.
    """
    try:
        with filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None


def read_replaced(filesystem: fs.FileSystem, path: str) -> bytes | None:
    """Return the content of a file that `write_whole` replaces; ``None`` when there is none.

    On HDFS the old file is deleted before the new one is moved. A writer that dies between the two leaves the
    new one, whole, under its unfinished name. Raises ``OSError`` for other failures.
    """
    content = read_whole(filesystem, path)
    if content is None and filesystem.type_name == "hdfs":
        return read_whole(filesystem, f"{path}{TORN}")
    return content


def remove_file(filesystem: fs.FileSystem, path: str) -> None:
    """Remove the file, if it is still there: a list may name files that others have removed since.

    Raises ``OSError``.
    """
    with suppress(FileNotFoundError):
        filesystem.delete_file(path)


@contextmanager
def awaited(path: str) -> Iterator[None]:
    """Turn the ``OSError`` of a file system into ``StoreAway``, which is waited for."""
    try:
        yield
    except OSError as error:
        raise StoreAway(
            f"{path} cannot be reached ({brief(str(error))}). Nothing is lost. See that its file system "
            "answers, and that the query's user may read and write there."
        ) from None


def _objects_of(filesystem: fs.FileSystem) -> WholeObjects | None:
    handler = filesystem.handler if isinstance(filesystem, fs.PyFileSystem) else None
    return handler if isinstance(handler, WholeObjects) else None


def _moved_first(filesystem: fs.FileSystem, path: str, content: bytes) -> bool:
    """Write under a name of our own, and give the file its name if no other file has it yet."""
    torn = f"{path}-{uuid.uuid4().hex}{TORN}"
    _write_torn(filesystem, torn, content)
    try:
        if isinstance(filesystem, fs.LocalFileSystem) and _linked(torn, path):
            return True
        if filesystem.get_file_info(path).type == fs.FileType.File:
            return False
        filesystem.move(torn, path)  # HDFS moves no file over another
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            filesystem.delete_file(torn)
    return True


def _write_torn(filesystem: fs.FileSystem, torn: str, content: bytes) -> None:
    """Write a file under its unfinished name."""
    with _removing(filesystem, torn), filesystem.open_output_stream(torn) as stream:
        stream.write(content)


@contextmanager
def _removing(filesystem: fs.FileSystem, torn: str) -> Iterator[None]:
    """Remove an unfinished file if what is done with it fails: on a full disk each retry would leave one."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            filesystem.delete_file(torn)
        raise


def _linked(torn: str, path: str) -> bool:
    """Give the file its name by a hard link; return whether that was possible.

    A move would replace another file of that name. Returns ``False`` where there are no hard links. Raises
    ``FileExistsError`` for a name that is taken.
    """
    try:
        os.link(torn, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True
