"""The output of a range: the versions of its keys that were committed."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RaftIndex, RangeId


class Version(NamedTuple):
    """A committed version of a key, with the name of the op that committed it.

    An empty ``value`` is a deletion. (``range_id``, ``raft_index``, ``ordinal``) name the op. A version that
    a scan found has no op; its raft index is 0.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes | None
    omit_in_rangefeeds: bool
    range_id: RangeId
    raft_index: RaftIndex
    ordinal: int

    @property
    def size_bytes(self) -> int:
        """The number of bytes of its key and values."""
        return len(self.key) + len(self.value) + len(self.prev_value or b"")
