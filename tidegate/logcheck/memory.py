"""What the check remembers of a log, each within a bound: a log is longer than memory.

What is forgotten is not judged: a sound log never fails for it, and a breach that spans more than the memory
is not seen.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId
from tidegate.spans import Span

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
_COMMANDS = 64
_SCANNED = 64


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """How much is remembered.

    ``keys`` is of how many keys the newest version is known, for the whole log: about 400 bytes each. The
    other bounds are for transactions that committed (whole log), transactions that aborted (each range), and
    ranges that split or ended (whole log).
    """

    keys: int = 500_000
    committed: int = 100_000
    aborted: int = 1_000
    estates: int = 100_000


class Recent(Generic[KeyT, ValueT]):
    """A dictionary of the entries that were put last. ``forgot`` says whether any had to go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[KeyT, ValueT] = {}
        self.forgot = False

    def get(self, key: KeyT) -> ValueT | None:
        """The entry, if it is still known."""
        return self._entries.get(key)

    def put(self, key: KeyT, value: ValueT) -> None:
        """Note an entry as the newest; the oldest goes when there is no room."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
            self.forgot = True

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._entries)


class NewestVersion(NamedTuple):
    """Of a key: its newest version, the hash of its value, when the log showed it (a serial number), and in
    which range."""

    timestamp: Timestamp
    value_hash: int
    serial: int
    range_id: RangeId


class NewestVersions:
    """The newest version of the keys that were written last, over all ranges: a key is in one at a time."""

    def __init__(self, limit: int) -> None:
        self._versions: Recent[bytes, NewestVersion] = Recent(limit)
        #: Counts versions, so that what was known before a hole can be told from what came behind it.
        self.serial = 0

    @property
    def forgot(self) -> bool:
        """Whether there may be versions that are not known any more."""
        return self._versions.forgot

    def get(self, key: bytes) -> NewestVersion | None:
        """The newest version of a key, if it is known."""
        return self._versions.get(key)

    def put(self, key: bytes, timestamp: Timestamp, value: bytes | None, range_id: RangeId) -> None:
        """Note a version."""
        self.serial += 1
        self._versions.put(key, NewestVersion(timestamp, hash(value), self.serial, range_id))


class CommandMemory:
    """The last commands of a range, by their raft indexes: enough to tell a copy from another command."""

    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * _COMMANDS))

    def note(self, index: int, digest: int) -> None:
        """Note the command of an index."""
        self._hashes[index % _COMMANDS] = digest

    def differs(self, index: int, digest: int, applied: int) -> bool:
        """Whether an index that comes again is known to have been another command."""
        return applied - index < _COMMANDS and self._hashes[index % _COMMANDS] not in (0, digest)


class ScannedSpans:
    """The spans that were scanned last, with the timestamp up to which each scan is complete."""

    def __init__(self) -> None:
        self._spans: deque[tuple[Span, Timestamp]] = deque(maxlen=_SCANNED)

    def note(self, span: Span, upto: Timestamp) -> None:
        """Note a chunk; one that goes on where the last one ended is one with it."""
        if self._spans:
            last, known = self._spans[-1]
            if known == upto and last.end == span.start:
                self._spans[-1] = Span(last.start, span.end), upto
                return
        self._spans.append((span, upto))

    def told(self, key: bytes, timestamp: Timestamp) -> Timestamp | None:
        """Up to where a scan was complete that should have shown this version."""
        for span, upto in self._spans:
            if timestamp <= upto and span.contains(key):
                return upto
        return None
