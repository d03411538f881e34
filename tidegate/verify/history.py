"""Compares the versions that the source committed with the rows of the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.verify.record import Headers
from tidegate.verify.violation import key_text


class ExpectedVersion(NamedTuple):
    """A version that the source committed, as the feed has to write it.

    ``key``, ``value`` and ``headers`` are the record's exact bytes. A ``value`` of ``None`` is a record
    without a value. Provenance headers and tombstones are not listed: they follow from the rest.

    ``timestamp`` is the version's own. ``scanned_at`` is the timestamp of the initial scan that shows the
    version, ``None`` if none does. Such a row tells ``scanned_at``, and has the record time of ``timestamp``.
    Example: a version of 100 s that a scan at 250 s shows tells 250 s, and its record time is 100,000 ms.
    """

    topic: str
    key: bytes
    timestamp: Timestamp
    value: bytes | None
    headers: Headers = ()
    scanned_at: Timestamp | None = None


class VersionId(NamedTuple):
    """The identity of a row version. ``timestamp`` is the one that its row tells."""

    topic: str
    key: bytes
    timestamp: Timestamp


class ExpectedRows:
    """The rows that the topics have to hold, and which of them were seen.

    These are the rows of an initial scan, and those above the feed's start. Each version takes about 300
    bytes, and twice as much once a row has come that tells no timestamp. Raises ``InputError`` for a version
    of a topic that is not audited, and for a version that is given twice with different values.
    """

    __slots__ = ("_by_record_time", "_digests", "_scanned_ms", "_unseen")

    def __init__(
        self, versions: Iterable[ExpectedVersion], topics: Iterable[str], start: Timestamp | None
    ) -> None:
        self._digests: dict[VersionId, int] = {}
        self._by_record_time: dict[tuple[str, bytes, int], list[VersionId]] | None = None
        #: The record times of the rows of the initial scan, in milliseconds.
        self._scanned_ms: dict[VersionId, int] = {}
        audited = frozenset(topics)
        for topic, key, timestamp, value, headers, scanned_at in versions:
            if topic not in audited:
                raise InputError(f"The history holds versions for topic {topic}, which is not being audited.")
            if scanned_at is not None:
                version = VersionId(topic, key, scanned_at)
                self._scanned_ms[version] = timestamp.wall_ms
                self._expect(version, hash((value, headers)))
            elif start is None or timestamp > start:
                self._expect(VersionId(topic, key, timestamp), hash((value, headers)))
        self._unseen = set(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def confirm(self, version: VersionId, value: bytes | None, headers: Headers) -> bool | None:
        """Note that a row was seen. Returns whether its value and headers are the expected ones.

        Returns ``None`` for a version that the source did not commit.
        """
        digest = self._digests.get(version)
        if digest is None:
            return None
        self._unseen.discard(version)
        return digest == hash((value, headers))

    def scanned_ms(self, version: VersionId) -> int | None:
        """Return the record time in milliseconds of a row of the initial scan; ``None`` for any other."""
        return self._scanned_ms.get(version)

    def confirm_untimed(
        self, topic: str, key: bytes, record_time_ms: int, value: bytes | None, headers: Headers
    ) -> bool | None:
        """Note a row that tells no timestamp, and return what ``confirm`` returns.

        The row may be any version of its key at its record time.
        """
        if self._by_record_time is None:
            self._by_record_time = self._indexed()
        versions = self._by_record_time.get((topic, key, record_time_ms))
        if versions is None:
            return None
        digest = hash((value, headers))
        meant = [version for version in versions if self._digests[version] == digest]
        self._unseen.difference_update(meant)
        return bool(meant)

    def _indexed(self) -> dict[tuple[str, bytes, int], list[VersionId]]:
        index: dict[tuple[str, bytes, int], list[VersionId]] = {}
        for version in self._digests:
            time_ms = self._scanned_ms.get(version, version.timestamp.wall_ms)
            index.setdefault((version.topic, version.key, time_ms), []).append(version)
        return index

    def missing(self, covered: Callable[[VersionId], bool]) -> Iterator[VersionId]:
        """Return the versions that were not seen although ``covered`` says that they are promised,
        in order.
        """
        return (version for version in sorted(self._unseen) if covered(version))

    def _expect(self, version: VersionId, digest: int) -> None:
        if self._digests.setdefault(version, digest) != digest:
            raise InputError(
                f"The history holds two values for key {key_text(version.key)} of topic {version.topic}"
                f" at {version.timestamp}."
            )
