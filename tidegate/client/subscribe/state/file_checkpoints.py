"""Checkpoints in files: one for each name, replaced as a whole.

    <directory>/<name>.checkpoint     a line of JSON, a line with its digest
    <directory>/<name>.lock           held while the file is compared and replaced

Names are percent-encoded. The lock is the kernel's (``flock``): it ends with its process. On network file
systems it may keep out only processes of the same machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tidegate.access.private_files import make_private
from tidegate.client.subscribe.state.checkpoint import (
    Clock,
    fenced,
    next_epoch,
    require_name,
    wall_clock_ms,
)
from tidegate.errors import HistoryLost, SettingsError, StateError

CHECKPOINT_FORMAT: Final = 1
_DIGEST_BYTES: Final = 16
_LONGEST_NAME: Final = 200  # file systems take 255 bytes, endings included
_LOCK_S: Final = 10.0  # a commit takes milliseconds
_BACKOFF_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A checkpoint in a file that this process has acquired."""

    name: str
    epoch: int
    token: str | None
    _store: FileCheckpoints = field(repr=False)

    def commit(self, token: str) -> None:
        """Store a token. It is on the disk when this returns. Raises ``Fenced``, ``StateError`` and
        ``HistoryLost``."""
        self._store.commit(self, token)

    def require_held(self) -> None:
        """Raise ``Fenced`` if another process has acquired the checkpoint since. Raises also as ``commit``.

        Nothing is written. Another process may acquire the checkpoint as soon as this returns.
        """
        self._store.require_held(self)

    def close(self) -> None:
        """Do nothing: no file stays open."""


class FileCheckpoints:
    """Checkpoints in a directory of this machine."""

    __slots__ = ("_clock", "_directory")

    def __init__(self, directory: Path, clock: Clock = wall_clock_ms) -> None:
        self._directory = directory
        self._clock = clock

    def acquire(self, name: str) -> HeldFile:
        """Raise the epoch of the name, and return its token."""
        require_name(name)
        with self._locked(name):
            before, token = self._read(name)
            epoch = next_epoch(before, self._clock())
            self._write(name, epoch, token)
        return HeldFile(name, epoch, token, self)

    def commit(self, held: HeldFile, token: str) -> None:
        """Store a token for its holder."""
        with self._locked(held.name):
            self._require_epoch(held)
            self._write(held.name, held.epoch, token)

    def require_held(self, held: HeldFile) -> None:
        """Raise ``Fenced`` unless the holder is the last one that acquired its name."""
        with self._locked(held.name):
            self._require_epoch(held)

    def _require_epoch(self, held: HeldFile) -> None:
        epoch, _ = self._read(held.name)
        if epoch != held.epoch:
            raise fenced(
                held.name, held.epoch, f"{self._file(held.name)} has the epoch {epoch or 'of nobody'}"
            )

    def _file(self, name: str, ending: str = "checkpoint") -> Path:
        quoted = quote(name, safe="", errors="surrogatepass")
        if len(quoted) > _LONGEST_NAME:
            raise SettingsError(
                f"The name {name:.40}... of a checkpoint has {len(quoted)} characters as a file name, and "
                f"{_LONGEST_NAME} is the most. Give it a shorter one"
            )
        return self._directory / f"{quoted}.{ending}"

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        file = self._file(name, "lock")
        with self._writing(file):
            make_private(self._directory)
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _wait_for_lock(lock, file)
            yield
        finally:
            os.close(lock)

    def _read(self, name: str) -> tuple[int, str | None]:
        """Read the epoch and the token; the epoch is 0 for a name that was never acquired."""
        file = self._file(name)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return 0, None
        except OSError as error:
            raise StateError(
                f"The checkpoint {file} cannot be read ({error.strerror}): make it readable for this user"
            ) from None
        try:
            members = _members(content)
            if members["format"] == CHECKPOINT_FORMAT and members["name"] == name:
                return int(members["epoch"]), members["token"]
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryLost(
                f"The checkpoint {file} is damaged ({error!r:.100}): where to go on is not known. Remove the "
                "file, and begin again with a snapshot"
            ) from None
        raise StateError(
            f"The checkpoint {file} has format {members['format']} and the name {members['name']:.40}, "
            f"and this version reads format {CHECKPOINT_FORMAT}. Upgrade, or name another directory"
        )

    def _write(self, name: str, epoch: int, token: str | None) -> None:
        file = self._file(name)
        members = {
            "epoch": epoch,
            "format": CHECKPOINT_FORMAT,
            "name": name,
            "token": token,
            "updated_ms": self._clock(),
        }
        line = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
        with self._writing(file):
            unfinished = self._file(name, "unfinished")
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as written:
                    written.write(line + b"\n" + _digest(line) + b"\n")
                    written.flush()
                    os.fsync(written.fileno())
                unfinished.replace(file)
            except OSError:
                with suppress(OSError):
                    unfinished.unlink()
                raise
            _sync_directory(self._directory)

    @contextmanager
    def _writing(self, file: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateError(
                f"{file} cannot be written ({error.strerror}). The file has the token before or "
                "the new one, whole. Make its directory writable for this user, with room on the disk"
            ) from None


def _wait_for_lock(lock: int, file: Path) -> None:
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise StateError(
                    f"Another process has held {file} for {_LOCK_S:g} s, which a commit never takes: it was "
                    "stopped in the middle of one, or its disk hangs. End it, then start again"
                ) from None
            time.sleep(_BACKOFF_S)


def _members(content: bytes) -> dict[str, Any]:
    line, _, digest = content.partition(b"\n")
    if digest != _digest(line) + b"\n":
        raise ValueError("the digest is of something else")
    members = json.loads(line)
    if not isinstance(members, dict):
        raise TypeError("not an object")
    return members


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
