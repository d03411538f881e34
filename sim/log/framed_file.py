"""Files of records. A record has a few numbers, a key and a value.

A file begins with a magic: bytes that name its format. A format may have an end: bytes that close a complete
file. If the end is missing, the file was cut between two records: its writer still runs, or it died.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.errors import StateError

_SIZES: Final = struct.Struct(">II")
_BUFFER_BYTES: Final = 1 << 20
_UNFINISHED: Final = (
    "its writer still runs, or died before it was done. Nothing in it is used; wait until the writer has "
    "ended, or write it again"
)


class FrameFormat(NamedTuple):
    """The format of a file.

    ``magic`` ends with the version of the format; ``numbers`` is the layout of a record's numbers. ``end``
    closes a complete file. It is as long as the numbers and sizes of a record together, and never equal to
    them. If the format has no end, a file is read as far as it was flushed.
    """

    magic: bytes
    numbers: struct.Struct
    end: bytes = b""


class FrameWriter:
    """Writes one file from its start. What was written is in the file after ``flush`` or ``close``."""

    def __init__(self, path: Path, form: FrameFormat) -> None:
        self._pack = form.numbers.pack
        self._end = form.end
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self._file.write(form.magic)

    def write(self, numbers: tuple[int, ...], key: bytes, value: bytes) -> None:
        """Append one record."""
        self._file.write(self._pack(*numbers) + _SIZES.pack(len(key), len(value)) + key + value)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self, *, complete: bool = True) -> None:
        """Write the end, flush, and close the file.

        If ``complete`` is false, the file gets no end. Readers refuse it if its format has an end.
        """
        if complete and not self._file.closed:
            self._file.write(self._end)
        self._file.close()


def read_frames(path: Path, form: FrameFormat) -> Iterator[tuple[tuple[int, ...], bytes, bytes]]:
    """Yield (numbers, key, value) of each record.

    Raises ``StateError`` for a file of another format, a torn file, and one without the end of its format.
    """
    head = form.numbers.size + _SIZES.size
    with path.open("rb") as file:
        magic = file.read(len(form.magic))
        if magic != form.magic:
            if form.magic.startswith(magic):
                raise StateError(f"{path} ends before its first record: {_UNFINISHED}")
            raise StateError(f"{path} does not start with {form.magic!r}: write it again with this version")
        while header := file.read(head):
            if form.end and header == form.end:
                return
            key_size, value_size = _SIZES.unpack(header[-_SIZES.size :]) if len(header) == head else (0, 1)
            body = file.read(key_size + value_size)
            if len(header) < head or len(body) < key_size + value_size:
                raise StateError(f"{path} ends within a record: {_UNFINISHED}")
            yield form.numbers.unpack(header[: -_SIZES.size]), body[:key_size], body[key_size:]
    if form.end:
        raise StateError(f"{path} has no end: {_UNFINISHED}")
