"""The memory of the check. Everything here has a bound, since a log is longer than memory.

What is forgotten is not judged. So a log that keeps the rules never fails, and a breach that spans more than
is remembered is not seen.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId
from tidegate.spans import Span

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
_COMMANDS = 64
_SCANNED = 64
#: The number of copies that are free, and the number that one listed intent pays for. An intent is copied
#: when its range leaves it, and when each of two children takes it.
_FIRST_COPIES = 100_000
_COPIES_OF_AN_INTENT = 8


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """The bounds of what a check remembers of a log.

    ``keys`` is the number of keys, in the whole log, whose newest version is known; each takes about 430
    bytes. ``committed`` bounds the committed transactions in the whole log, and ``aborted`` the aborted ones
    in each range. ``estates`` bounds the estates of ranges that split, merged or ended, in the whole log.
    ``left`` bounds the transactions and ancestors in all estates together; each takes about 80 bytes.
    """

    keys: int = 500_000
    committed: int = 100_000
    aborted: int = 1_000
    estates: int = 100_000
    left: int = 500_000


class CheckedTxn(NamedTuple):
    """The number of a transaction's open intents, and the highest timestamp of any of them."""

    intents: int
    timestamp: Timestamp


class CopyCredit:
    """The number of transactions that may still be copied from range to range. Records of the log pay for it.

    So a copy takes linear time, however often a range splits. A log that keeps the rules never lacks credit:
    after each split and merge a Snapshot lists the open intents once more. ``aborted`` is the number of
    aborted transactions that a range remembers at most. A range hands these on, although no Snapshot lists
    them.
    """

    def __init__(self, aborted: int) -> None:
        self._of_a_record = 2 * aborted
        self._left = _FIRST_COPIES

    def earn(self, listed: int) -> None:
        """Add the credit for a record with ``listed`` ops or intents."""
        self._left += self._of_a_record + _COPIES_OF_AN_INTENT * listed

    def spend(self, count: int) -> bool:
        """Take ``count`` copies from the credit. Returns False, and takes none, if there are fewer."""
        if count > self._left:
            return False
        self._left -= count
        return True


class Recent(Generic[KeyT, ValueT]):
    """A dictionary of the last ``limit`` entries that were put. ``forgot`` says whether any was removed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # A plain dictionary finds its oldest entry only after the places of all that were removed before it.
        self._entries: OrderedDict[KeyT, ValueT] = OrderedDict()
        self.forgot = False

    def get(self, key: KeyT) -> ValueT | None:
        """Return the entry, ``None`` if it is not known."""
        return self._entries.get(key)

    def put_all(self, keys: Iterable[KeyT], value: ValueT) -> None:
        """Put many keys with one value, the newest last. A key that is there already keeps its place."""
        self._entries.update(dict.fromkeys(keys, value))
        while len(self._entries) > self._limit:
            self._forget_oldest()

    def put(self, key: KeyT, value: ValueT) -> None:
        """Put an entry as the newest one. The oldest one is removed if there is no room."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._entries.popitem(last=False)
        self.forgot = True

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._entries)


class NewestVersion(NamedTuple):
    """The newest version of a key: its timestamp, the hash of its value, its serial number, and its range.

    Serial numbers count the versions in the order in which the log has shown them.
    """

    timestamp: Timestamp
    value_hash: int
    serial: int
    range_id: RangeId


class NewestVersions:
    """The newest version of each of the keys that were written last, for all ranges together."""

    def __init__(self, limit: int) -> None:
        self._versions: Recent[bytes, NewestVersion] = Recent(limit)
        #: The number of versions so far. It tells whether a version came before or after a hole.
        self.serial = 0

    @property
    def forgot(self) -> bool:
        """Whether the newest version of any key was forgotten."""
        return self._versions.forgot

    def get(self, key: bytes) -> NewestVersion | None:
        """Return the newest version of a key, ``None`` if it is not known."""
        return self._versions.get(key)

    def put(self, key: bytes, timestamp: Timestamp, value: bytes | None, range_id: RangeId) -> None:
        """Note a version as the newest one of its key."""
        self.serial += 1
        self._versions.put(key, NewestVersion(timestamp, hash(value), self.serial, range_id))


class CommandMemory:
    """The last commands of a range, by their raft indexes: enough to tell a copy from another command."""

    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * _COMMANDS))

    def note(self, index: int, digest: int) -> None:
        """Note the hash of the command at an index."""
        self._hashes[index % _COMMANDS] = digest

    def differs(self, index: int, digest: int, applied: int) -> bool:
        """Whether an index that comes again is known to have had another command."""
        return applied - index < _COMMANDS and self._hashes[index % _COMMANDS] not in (0, digest)


class ScannedSpans:
    """The spans that were scanned last, with the timestamp up to which each scan is complete."""

    def __init__(self) -> None:
        self._spans: deque[tuple[Span, Timestamp]] = deque(maxlen=_SCANNED)

    def note(self, span: Span, upto: Timestamp) -> None:
        """Note a chunk.

        It is joined with the last span if it begins where that span ends, and is complete up to the same
        timestamp.
        """
        if self._spans:
            last, known = self._spans[-1]
            if known == upto and last.end == span.start:
                self._spans[-1] = Span(last.start, span.end), upto
                return
        self._spans.append((span, upto))

    def told(self, key: bytes, timestamp: Timestamp) -> Timestamp | None:
        """Return the timestamp up to which a scan is complete that should have shown this version; ``None``
        if no scan should have shown it.
        """
        for span, upto in self._spans:
            if timestamp <= upto and span.contains(key):
                return upto
        return None
