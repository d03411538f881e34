"""The state of log partitions, in files of the query's checkpoint directory: one for each round that changed
the state.

A file holds the rows of state that its round changed, and names the file before it. Now and then a file holds
all rows. A file is written under another name and moved into place, so it is there as a whole or not at all.
Nobody looks for the newest file: the driver's ledger names it, so that a missing file is noticed.

A file has a hash at its beginning, since Arrow files have no check sums. All that follows is an Arrow file.
Files of earlier versions are Arrow files from their first byte on, and are accepted without a hash.
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
from tidegate.spark.platform.whole_files import awaited, read_whole, remove_file, write_whole

#: Rows of state, by table and key. In changes ``None`` stands for a row that is removed.
Rows: TypeAlias = Mapping[tuple[StateTable, bytes], bytes]
Changes: TypeAlias = Mapping[tuple[StateTable, bytes], bytes | None]

#: The end of a sentence: what to do when a checkpoint directory cannot be used any more.
BUILD_ANEW: Final = (
    "start on a new checkpoint directory: the state is built anew from the log, and what is missing there is "
    "scanned for"
)
_VERSION: Final = b"1"
#: The first bytes of a file with a hash; the hash follows.
_HASHED: Final = b"tidegate state 2"
_HASH_BYTES: Final = 32
#: The first character of a file's name until the file is whole.
_BEING_WRITTEN: Final = "."
#: The first bytes of an Arrow file.
_ARROW: Final = b"ARROW1"
_SCHEMA: Final = pa.schema(
    [("table", pa.dictionary(pa.int8(), pa.string())), ("key", pa.binary()), ("value", pa.binary())]
)


class StoredRows(NamedTuple):
    """The content of one file. ``previous`` names the file before it; empty if it holds all rows."""

    previous: str
    changes: Changes


class LoadedRows(NamedTuple):
    """The state as of the file ``head``; empty if no file is named.

    ``base`` is the file with all rows that the state begins with. ``changed`` is how many changes the files
    after it hold, and ``deltas`` is how many files these are. ``size`` is how many bytes the keys and values
    of ``rows`` have.
    """

    rows: dict[tuple[StateTable, bytes], bytes]
    head: str = ""
    base: str = ""
    changed: int = 0
    deltas: int = 0
    size: int = 0


def apply_changes(rows: dict[tuple[StateTable, bytes], bytes], changes: Changes) -> int:
    """Apply these changes to ``rows``; return by how many bytes their keys and values have grown."""
    growth = 0
    for address, value in changes.items():
        before = rows.get(address)
        if before is not None:
            growth -= len(address[1]) + len(before)
        if value is None:
            rows.pop(address, None)
        else:
            rows[address] = value
            growth += len(address[1]) + len(value)
    return growth


class StateFiles:
    """The files of log partition ``partition`` below ``root``, a directory of ``filesystem``."""

    def __init__(self, filesystem: fs.FileSystem, root: str, partition: int) -> None:
        self._filesystem = filesystem
        self._directory = f"{root}/state/{partition}"
        self._partition = partition

    def write(self, name: str, previous: str, changes: Changes) -> None:
        """Store what a round changed since the file ``previous``; all rows when that is empty.

        Raises ``StoreAway`` if the file system does not answer.
        """
        table = pa.table(
            {
                "table": pa.array([table.value for table, _ in changes]).cast(_SCHEMA.field("table").type),
                "key": pa.array([key for _, key in changes], pa.binary()),
                "value": pa.array(changes.values(), pa.binary()),
            },
            _SCHEMA.with_metadata({"version": _VERSION, "previous": previous.encode()}),
        )
        torn = f"{self._directory}/{_BEING_WRITTEN}{name}-{uuid.uuid4().hex}"
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_file(buffer, table.schema) as file:
            file.write_table(table)
        content = buffer.getvalue()
        whole = b"".join((_HASHED, _hash(content), content))
        with awaited(self._path(name)):
            self._filesystem.create_dir(self._directory)
            write_whole(self._filesystem, self._path(name), whole, torn)

    def load(self, name: str, known: LoadedRows | None = None) -> LoadedRows:
        """Return the state as of the file ``name``.

        ``known`` is the state as of another file. If the chain of ``name`` holds that file, only the files
        after it are read, and their changes are applied to the rows of ``known``. Otherwise the whole chain
        is read.

        Raises ``StateError`` for a file that is missing or torn, and ``StoreAway``. ``known`` is not changed
        then.
        """
        known = known or LoadedRows({})
        chain: list[StoredRows] = []
        base, at = "", name
        while at != known.head:
            chain.append(self._read(at))
            base, at = at, chain[-1].previous
            if not at:
                break
        if at:  # the files that were read follow on ``known``
            state = known
        else:
            rows: dict[tuple[StateTable, bytes], bytes] = {}
            state = LoadedRows(rows, base=base, size=apply_changes(rows, chain.pop().changes))
        growth = sum(apply_changes(state.rows, changes) for _, changes in reversed(chain))
        return state._replace(
            head=name,
            changed=state.changed + sum(len(changes) for _, changes in chain),
            deltas=state.deltas + len(chain),
            size=state.size + growth,
        )

    def require(self, name: str) -> None:
        """Check that the file ``name`` is there and is what was written.

        Raises ``StateError`` if it is not, and ``StoreAway`` if the file system does not answer.
        """
        path = self._path(name)
        with self._naming(path):
            pa.ipc.open_file(self._content(path))

    def names(self) -> list[str]:
        """Return the names of the files that are whole, in the order of their rounds."""
        return sorted(
            file.removesuffix(".arrow") for file in self._found() if not file.startswith(_BEING_WRITTEN)
        )

    def remove_before(self, base: str, most: int) -> bool:
        """Remove at most ``most`` files that are older than ``base``; return whether there are more.

        Every state that is still wanted begins at ``base`` or at a later base. A file that a dead task left
        unfinished is as old as its name says. Another attempt of the task may remove the same files
        meanwhile.

        Raises ``OSError`` for a file that cannot be removed.
        """
        old = (file for file in self._found() if file.removeprefix(_BEING_WRITTEN) < base)
        for count, file in enumerate(sorted(old)):
            if count == most:
                return True
            remove_file(self._filesystem, f"{self._directory}/{file}")
        return False

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
        """Return the Arrow file, once its hash shows that it is what was written. Raises ``ValueError``."""
        with awaited(path):
            found = read_whole(self._filesystem, path)
        if found is None:
            raise FileNotFoundError(path)
        stored = pa.py_buffer(found)
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
        """Turn what reading a file raises into a sentence that names the file."""
        try:
            yield
        except FileNotFoundError:
            raise self._unusable(path, "is missing") from None
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
            raise self._unusable(path, f"is torn or damaged ({brief(str(error))})") from None

    def refused(self, name: str, mismatch: StateMismatch) -> StateError:
        """Return the error for the file ``name``, whose rows do not make a state."""
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
