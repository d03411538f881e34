"""The state of log partitions as files beside the query's checkpoint, one for each round that changed it.

A file holds the rows that its round changed, and names the one before it; now and then one holds all rows.
It is written under another name and moved into place, so that it is there whole or not at all. Which file is
the newest is not found by looking: the driver's ledger says it, so that a file which is gone is missed.

A file begins with a hash of all that follows, which is an Arrow file: these have no check sums. Files of
before are Arrow files from their first byte on, and are taken as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import fs

from tidegate.errors import StateError, StateMismatch, brief
from tidegate.processor.batch import StateTable

#: Rows of state by table and key; ``None`` for one that is removed.
Rows: TypeAlias = Mapping[tuple[StateTable, bytes], bytes]
Changes: TypeAlias = Mapping[tuple[StateTable, bytes], bytes | None]

#: What can be done about a checkpoint directory that is of no use any more.
BUILD_ANEW: Final = (
    "start on a new checkpoint directory: the state is built anew from the log, and what is missing there is "
    "scanned for"
)
_VERSION: Final = b"1"
#: What a file begins with that has a hash behind it.
_HASHED: Final = b"tidegate state 2"
_HASH_BYTES: Final = 32
#: What the name of a file begins with until it is whole.
_BEING_WRITTEN: Final = "."
#: What an Arrow file begins with.
_ARROW: Final = b"ARROW1"
_SCHEMA: Final = pa.schema(
    [("table", pa.dictionary(pa.int8(), pa.string())), ("key", pa.binary()), ("value", pa.binary())]
)


class StoredRows(NamedTuple):
    """One file: ``previous`` is the name of the one that it changes; empty where it holds all rows."""

    previous: str
    changes: Changes


class LoadedRows(NamedTuple):
    """The state as of one file; ``base`` is the file with all rows that it begins with, ``changed`` how many
    changes stand in the files on top of that."""

    rows: dict[tuple[StateTable, bytes], bytes]
    base: str
    changed: int


def apply_changes(rows: dict[tuple[StateTable, bytes], bytes], changes: Changes) -> None:
    """Make ``rows`` what they are after these changes."""
    for address, value in changes.items():
        if value is None:
            rows.pop(address, None)
        else:
            rows[address] = value


class StateFiles:
    """The files of log partition ``partition`` below ``root``, a directory of ``filesystem``."""

    def __init__(self, filesystem: fs.FileSystem, root: str, partition: int) -> None:
        self._filesystem = filesystem
        self._directory = f"{root}/state/{partition}"
        self._partition = partition

    def write(self, name: str, previous: str, changes: Changes) -> None:
        """Store what a round changed since ``previous``; all rows where that is empty."""
        table = pa.table(
            {
                "table": pa.array([table.value for table, _ in changes]).cast(_SCHEMA.field("table").type),
                "key": pa.array([key for _, key in changes], pa.binary()),
                "value": pa.array(changes.values(), pa.binary()),
            },
            _SCHEMA.with_metadata({"version": _VERSION, "previous": previous.encode()}),
        )
        self._filesystem.create_dir(self._directory)
        torn = f"{self._directory}/{_BEING_WRITTEN}{name}-{uuid.uuid4().hex}"
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_file(buffer, table.schema) as file:
            file.write_table(table)
        content = buffer.getvalue()
        with self._filesystem.open_output_stream(torn) as stream:
            stream.write(_HASHED + _hash(content))
            stream.write(content)
        self._filesystem.move(torn, self._path(name))

    def load(self, name: str) -> LoadedRows:
        """The rows as of the file ``name``. Raises ``StateError`` for a file that is missing or torn."""
        chain = [self._read(base := name)]
        while previous := chain[-1].previous:
            chain.append(self._read(base := previous))
        rows: dict[tuple[StateTable, bytes], bytes] = {}
        for _, changes in reversed(chain):
            apply_changes(rows, changes)
        return LoadedRows(rows, base, sum(len(changes) for _, changes in chain[:-1]))

    def require(self, name: str) -> None:
        """Look whether the file ``name`` is there and is what was written. Raises ``StateError``."""
        path = self._path(name)
        with self._naming(path):
            pa.ipc.open_file(self._content(path))

    def names(self) -> list[str]:
        """Of the files that are whole, in the order of their rounds."""
        return sorted(
            file.removesuffix(".arrow") for file in self._found() if not file.startswith(_BEING_WRITTEN)
        )

    def remove_before(self, base: str) -> None:
        """Remove what is older than ``base``, which holds all rows of every state that is still wanted.

        A file that a task began, and did not live to move into place, is as old as its name says.
        """
        for file in list(self._found()):
            if file.removeprefix(_BEING_WRITTEN) < base:
                self._filesystem.delete_file(f"{self._directory}/{file}")

    def _found(self) -> Iterator[str]:
        found = self._filesystem.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        return (PurePosixPath(info.path).name for info in found if info.type == fs.FileType.File)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}.arrow"

    def _read(self, name: str) -> StoredRows:
        path = self._path(name)
        with self._naming(path):
            with pa.ipc.open_file(self._content(path)) as file:
                table = file.read_all()
            metadata = table.schema.metadata or {}
            if metadata.get(b"version") != _VERSION:
                raise ValueError(f"its version is {metadata.get(b'version')!r}, and not {_VERSION!r}")
            tables = [StateTable(table) for table in table.column("table").to_pylist()]
            addresses = zip(tables, table.column("key").to_pylist(), strict=True)
            changes = dict(zip(addresses, table.column("value").to_pylist(), strict=True))
            return StoredRows(metadata[b"previous"].decode(), changes)

    def _content(self, path: str) -> pa.Buffer:
        """The Arrow file, once it is known to be what was written. Raises ``ValueError``."""
        with self._filesystem.open_input_stream(path) as stream:
            stored = pa.py_buffer(stream.read())
        begin = len(_HASHED) + _HASH_BYTES
        if stored[: len(_HASHED)].to_pybytes() != _HASHED:
            if stored[: len(_ARROW)].to_pybytes() != _ARROW:
                raise ValueError("it does not begin as a file of state")
            return stored
        content = stored[begin:]
        if stored[len(_HASHED) : begin].to_pybytes() != _hash(content):
            raise ValueError("its hash does not fit")
        return content

    @contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Turns what reading the file raises into a sentence."""
        try:
            yield
        except FileNotFoundError:
            raise self._unusable(path, "is missing") from None
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
            raise self._unusable(path, f"is torn or damaged ({brief(str(error))})") from None

    def refused(self, name: str, mismatch: StateMismatch) -> StateError:
        """What is said of the file ``name``, with which no state can be put back."""
        return self._unusable(
            self._path(name), f"holds rows that are not those that were written ({mismatch})"
        )

    def _unusable(self, path: str, how: str) -> StateError:
        return StateError(
            f"The state of log partition {self._partition} cannot be read: {path} {how}. Nothing was "
            f"emitted. Put it back, or {BUILD_ANEW}."
        )


def _hash(content: pa.Buffer) -> bytes:
    return blake2b(content, digest_size=_HASH_BYTES).digest()
