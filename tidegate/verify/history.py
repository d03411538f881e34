"""What the source committed, against what the topics hold: nothing missing, nothing invented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidegate.errors import InputError
from tidegate.hlc import Timestamp
from tidegate.verify.record import Headers
from tidegate.verify.violation import key_text


class ExpectedVersion(NamedTuple):
    """A version that the source committed, as the feed has to write it.

    ``key``, ``value`` and ``headers`` are the record's exact bytes; ``value`` ``None`` is a record without a
    value. Provenance headers and tombstones are not listed: they follow from the rest. Rows of an initial
    scan are expected at the scan's timestamp.
    """

    topic: str
    key: bytes
    timestamp: Timestamp
    value: bytes | None
    headers: Headers = ()


class VersionId(NamedTuple):
    """What tells one row version from all others."""

    topic: str
    key: bytes
    timestamp: Timestamp


class ExpectedRows:
    """The expected versions above the feed's start, and which of them were seen.

    Holds a digest per version, about 300 bytes each, and as much again once a row tells no timestamp. Raises
    ``InputError`` for a version of a topic that is not audited, and for one version given twice with
    different values.
    """

    __slots__ = ("_by_record_time", "_digests", "_unseen")

    def __init__(
        self, versions: Iterable[ExpectedVersion], topics: Iterable[str], start: Timestamp | None
    ) -> None:
        self._digests: dict[VersionId, int] = {}
        self._by_record_time: dict[tuple[str, bytes, int], list[VersionId]] | None = None
        audited = frozenset(topics)
        for topic, key, timestamp, value, headers in versions:
            if topic not in audited:
                raise InputError(f"The history holds versions for topic {topic}, which is not being audited.")
            if start is None or timestamp > start:
                self._expect(VersionId(topic, key, timestamp), hash((value, headers)))
        self._unseen = set(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def confirm(self, version: VersionId, value: bytes | None, headers: Headers) -> bool | None:
        """Whether value and headers are the expected ones; ``None`` for a version that nobody committed."""
        digest = self._digests.get(version)
        if digest is None:
            return None
        self._unseen.discard(version)
        return digest == hash((value, headers))

    def confirm_untimed(
        self, topic: str, key: bytes, record_time_ms: int, value: bytes | None, headers: Headers
    ) -> bool | None:
        """The same for a row that tells no timestamp: any version of its key at its record time may be it."""
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
            index.setdefault((version.topic, version.key, version.timestamp.wall_ms), []).append(version)
        return index

    def missing(self, covered: Callable[[VersionId], bool]) -> Iterator[VersionId]:
        """The versions that were not seen though ``covered`` says that a marker promises them."""
        return (version for version in sorted(self._unseen) if covered(version))

    def _expect(self, version: VersionId, digest: int) -> None:
        if self._digests.setdefault(version, digest) != digest:
            raise InputError(
                f"The history holds two values for key {key_text(version.key)} of topic {version.topic}"
                f" at {version.timestamp}."
            )
