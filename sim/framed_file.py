"""Files of records that are a few numbers, a key and a value each, under a magic that names their format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.errors import StateError

_SIZES: Final = struct.Struct(">II")
_BUFFER_BYTES: Final = 1 << 20


class FrameFormat(NamedTuple):
    """``magic`` ends with the version of the format; ``numbers`` is the layout of a record's numbers."""

    magic: bytes
    numbers: struct.Struct


class FrameWriter:
    """Writes one file from its start; what was written is there after ``flush`` or ``close``."""

    def __init__(self, path: Path, form: FrameFormat) -> None:
        self._pack = form.numbers.pack
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self._file.write(form.magic)

    def write(self, numbers: tuple[int, ...], key: bytes, value: bytes) -> None:
        """Append one record."""
        self._file.write(self._pack(*numbers) + _SIZES.pack(len(key), len(value)) + key + value)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush, and close the file."""
        self._file.close()


def read_frames(path: Path, form: FrameFormat) -> Iterator[tuple[tuple[int, ...], bytes, bytes]]:
    """(numbers, key, value) of each record. ``StateError`` for a file of another format, or a torn one."""
    head = form.numbers.size + _SIZES.size
    with path.open("rb") as file:
        if file.read(len(form.magic)) != form.magic:
            raise StateError(f"{path} does not start with {form.magic!r}: write it again with this version")
        while header := file.read(head):
            key_size, value_size = _SIZES.unpack(header[-_SIZES.size :]) if len(header) == head else (0, 1)
            body = file.read(key_size + value_size)
            if len(header) < head or len(body) < key_size + value_size:
                raise StateError(f"{path} ends within a record: its writer was not closed; write it again")
            yield form.numbers.unpack(header[: -_SIZES.size]), body[:key_size], body[key_size:]
