"""What the source committed, against what the topics hold: nothing missing, nothing invented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidegate.errors import InputError
from tidegate.hlc import Timestamp
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
    headers: tuple[tuple[str, bytes | None], ...] = ()


class VersionId(NamedTuple):
    """What tells one row version from all others."""

    topic: str
    key: bytes
    timestamp: Timestamp


class ExpectedRows:
    """The expected versions above the feed's start, and which of them were seen.

    Holds a digest per version, about 300 bytes each. Raises ``InputError`` for a version of a topic that
    is not audited, and for one version given twice with different values.
    """

    __slots__ = ("_digests", "_unseen")

    def __init__(
        self, versions: Iterable[ExpectedVersion], topics: Iterable[str], start: Timestamp | None
    ) -> None:
        self._digests: dict[VersionId, int] = {}
        audited = frozenset(topics)
        for topic, key, timestamp, value, headers in versions:
            if topic not in audited:
                raise InputError(f"The history holds versions for topic {topic}, which is not being audited.")
            if start is None or timestamp > start:
                self._expect(VersionId(topic, key, timestamp), hash((value, headers)))
        self._unseen = set(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def confirm(
        self,
        topic: str,
        key: bytes,
        timestamp: Timestamp,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> bool | None:
        """Whether value and headers are the expected ones; ``None`` for a version that nobody committed."""
        version = VersionId(topic, key, timestamp)
        digest = self._digests.get(version)
        if digest is None:
            return None
        self._unseen.discard(version)
        return digest == hash((value, headers))

    def missing(self, covered: Callable[[VersionId], bool]) -> Iterator[VersionId]:
        """The versions that were not seen though ``covered`` says that a marker promises them."""
        return (version for version in sorted(self._unseen) if covered(version))

    def _expect(self, version: VersionId, digest: int) -> None:
        if self._digests.setdefault(version, digest) != digest:
            raise InputError(
                f"The history holds two values for key {key_text(version.key)} of topic {version.topic}"
                f" at {version.timestamp}."
            )
