"""Writes and reads small files that are there as a whole or not at all."""

from __future__ import annotations

from typing import Final

from pyarrow import fs

#: The end of the name of a file that is being written, or whose writer died then.
TORN: Final = ".torn"


def write_whole(filesystem: fs.FileSystem, path: str, content: bytes) -> None:
    """Write the file, or replace it. Its directory exists. Raises ``OSError``.

    A path must have one writer at a time, since the name of an unfinished file is always the same.
    """
    torn = f"{path}{TORN}"
    with filesystem.open_output_stream(torn) as stream:
        stream.write(content)
    filesystem.move(torn, path)


def read_whole(filesystem: fs.FileSystem, path: str) -> bytes | None:
    """Return the file's content, or ``None`` when there is no such file.

    Raises ``OSError`` for other failures.
    """
    try:
        with filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None
