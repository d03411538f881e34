"""Keeps records aside in files if an exception that nobody foresaw came up on them (docs/security.md).

Workers and Spark queries do this alike. No engine reads the records again; ``tidegate debug refused`` does.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import metadata
from threading import Lock
from typing import Final, NamedTuple, Protocol

from tidegate.errors import InputError, brief
from tidegate.processor.refused import RefusedRecord, Source

#: The name of the directory for these files, within the directory of an application or a query.
DIRECTORY: Final = "refused"
#: The most files and bytes of a directory. The oldest files are removed first.
FILES_MAX: Final = 100
BYTES_MAX: Final = 64 << 20
#: The most bytes of a record that is kept. Of a larger one only its place and its cause are kept.
RECORD_BYTES_MAX: Final = 8 << 20
#: The most records that a process keeps in an hour: for one exception at one place in the code, and for all
#: exceptions together.
OF_ONE_PLACE: Final = 10
OF_ALL: Final = 100
_HOUR_S: Final = 3_600
_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z-(?:log|control|handoff|row)-\d+-\d+-[0-9a-f]{8}\.json")

_log: Final = logging.getLogger("tidegate.refused")


class RefusedFiles(Protocol):
    """The files of a directory, which may not exist yet. A file is written as a whole or not at all.

    Every failure is an ``OSError``.
    """

    def sizes(self) -> Mapping[str, int]: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, content: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class KeptRecord(NamedTuple):
    """A record, where it was read, and the version of tidegate that met it.

    ``left_out`` is the size in bytes of a record that was too large to be kept; 0 for others.
    """

    record: RefusedRecord
    topic: str
    partition: int
    version: str
    left_out: int


class RefusedRecords:
    """Keeps records in the files that ``open_files`` opens. ``topics`` are the topics that records come from.

    ``clock`` returns the wall clock's time, in seconds.
    """

    def __init__(
        self,
        open_files: Callable[[], RefusedFiles],
        topics: Mapping[Source, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_files = open_files
        self._topics = topics
        self._clock = clock
        self._lock = Lock()
        self._hour = 0
        self._kept = Counter[str]()

    def keep(self, partition: int, record: RefusedRecord) -> None:
        """Keep a record of a log partition.

        Raises nothing: a record that it cannot keep is noted in the log.
        """
        with self._lock:
            if self._is_enough(record.exception):
                return
            try:
                name = self._store(partition, record)
            except Exception as error:
                _log.warning(
                    "the record at offset %d is not kept aside: %s", record.offset, brief(str(error))
                )
            else:
                _log.warning(
                    "the record at offset %d is kept aside for `tidegate debug refused`: %s",
                    record.offset,
                    name,
                )

    def _is_enough(self, exception: str) -> bool:
        """Return whether enough was kept in this hour. If not, count this record."""
        hour = int(self._clock() // _HOUR_S)
        if hour != self._hour:
            self._hour = hour
            self._kept.clear()
        if self._kept[exception] >= OF_ONE_PLACE or self._kept.total() >= OF_ALL:
            return True
        self._kept[exception] += 1
        return False

    def _store(self, partition: int, record: RefusedRecord) -> str:
        """Store the record, unless it is stored already; return the name of its file."""
        content = self._content(partition, record)
        what = (
            f"{record.source.value}-{partition}-{record.offset}-{blake2b(content, digest_size=4).hexdigest()}"
        )
        files = self._open_files()
        sizes = _ours(files.sizes())
        known = [name for name in sizes if name.endswith(f"Z-{what}.json")]
        if known:
            return known[0]
        _make_room(files, sizes, len(content))
        name = f"{datetime.fromtimestamp(self._clock(), UTC):%Y%m%dT%H%M%S.%fZ}-{what}.json"
        files.write(name, content)
        return name

    def _content(self, partition: int, record: RefusedRecord) -> bytes:
        left_out = record.size if record.size > RECORD_BYTES_MAX else 0
        if left_out:
            record = record._replace(key=None, value=None, row=None)
        place = {
            "topic": self._topics.get(record.source, ""),
            "partition": partition,
            "tidegate": metadata.version("tidegate"),
            "left_out_bytes": left_out,
        }
        return json.dumps({**place, **record.to_json()}, indent=1).encode()


def _make_room(files: RefusedFiles, sizes: Mapping[str, int], wanted: int) -> None:
    """Remove the oldest files until a file of ``wanted`` bytes has room."""
    names, total = sorted(sizes), sum(sizes.values())
    while names and (len(names) >= FILES_MAX or total + wanted > BYTES_MAX):
        oldest = names.pop(0)
        files.remove(oldest)
        total -= sizes[oldest]


def kept_names(files: RefusedFiles) -> list[str]:
    """Return the names of all kept files, the oldest first. Raises ``OSError``."""
    return sorted(_ours(files.sizes()))


def read_kept(files: RefusedFiles, name: str) -> KeptRecord:
    """Return what a file holds.

    Raises ``InputError`` for a file that cannot be read, is damaged, or is of a newer version.
    """
    try:
        stored = json.loads(files.read(name))
        place = str(stored["topic"]), int(stored["partition"]), str(stored["tidegate"])
        return KeptRecord(RefusedRecord.from_json(stored), *place, int(stored["left_out_bytes"]))
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        RecursionError,
        InputError,
    ) as error:
        raise InputError(f"{name} cannot be read: {brief(str(error))}") from None


def _ours(sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if _NAME.fullmatch(name)}
