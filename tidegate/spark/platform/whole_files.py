"""Small files that are there whole or not at all."""

from __future__ import annotations

from typing import Final

from pyarrow import fs

#: What ends the name of a file that is being written, or whose writer died then.
TORN: Final = ".torn"


def write_whole(filesystem: fs.FileSystem, path: str, content: bytes) -> None:
    """Write the file, or replace it; its directory is there. Raises ``OSError``.

    A path has one writer at a time, for what is being written has the same name each time.
    """
    torn = f"{path}{TORN}"
    with filesystem.open_output_stream(torn) as stream:
        stream.write(content)
    filesystem.move(torn, path)


def read_whole(filesystem: fs.FileSystem, path: str) -> bytes | None:
    """The file's content; ``None`` where there is no such file. Raises ``OSError`` otherwise."""
    try:
        with filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None
