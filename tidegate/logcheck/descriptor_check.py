"""Checks the table descriptors of a log: they can be read, and stand before the rows that need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidegate.errors import DescriptorConflict, EncodingError
from tidegate.hlc import Timestamp
from tidegate.logcheck.breach import BreachPlace, Rule
from tidegate.raftlog.entry import CommitIntent, DescriptorUpdate, WriteValue
from tidegate.rows import Catalog, decode_descriptor, table_id_of

Report: TypeAlias = Callable[[Rule, str, BreachPlace | None], None]
#: A broadcast counts as missing in a partition that lacks it when all partitions have been read this many
#: milliseconds beyond the first record of the broadcast.
_BROADCAST_MS = 10_000


class _TableIn(NamedTuple):
    """A table in one partition."""

    partition: int
    table_id: int


class _Broadcast(NamedTuple):
    """The broadcasts of a descriptor version: how many each partition has, and the first record time."""

    counts: dict[int, int]
    first_ms: int


class DescriptorCheck:
    """The check of the descriptors in all partitions.

    The partitions in ``cut`` have lost their beginning, so they may have had descriptors that are not seen.
    """

    def __init__(self, partitions: int, cut: frozenset[int], report: Report) -> None:
        self._partitions = partitions
        self._cut = cut
        self._report = report
        self._catalog = Catalog()
        self._checked: set[DescriptorUpdate] = set()
        self._broadcasts: dict[DescriptorUpdate, _Broadcast] = {}
        self._modified: dict[_TableIn, Timestamp] = {}
        self._versions: dict[_TableIn, int] = {}
        self._highs: dict[_TableIn, Timestamp] = {}

    def take_broadcast(self, update: DescriptorUpdate, place: BreachPlace, record_time_ms: int) -> None:
        """Check a broadcast descriptor. The rows after it in its partition have this descriptor."""
        self.check_bytes(update, place)
        known = self._broadcasts.setdefault(update, _Broadcast({}, record_time_ms))
        known.counts[place.partition] = known.counts.get(place.partition, 0) + 1
        table = _TableIn(place.partition, update.table_id)
        self._check_in_time(update, table, place)
        self._modified[table] = min(update.modified, self._modified.get(table, update.modified))

    def check_bytes(self, update: DescriptorUpdate, place: BreachPlace) -> None:
        """Check that a descriptor can be read, and has the table, version and time that its record names.

        The same content is checked only once.
        """
        if update in self._checked:
            return
        self._checked.add(update)
        what = f"version {update.version} of table {update.table_id}"
        try:
            descriptor = decode_descriptor(update.descriptor)
            named = (update.table_id, update.version, update.modified)
            if named != (descriptor.id, descriptor.version, descriptor.modified):
                held = f"version {descriptor.version} of table {descriptor.id} from {descriptor.modified}"
                self._report(
                    Rule.DESCRIPTOR_BYTES, f"{what} from {update.modified} on is in truth {held} on", place
                )
                return
            if update.table_id <= 0:
                self._report(Rule.DESCRIPTOR_BYTES, f"{what}: table ids are above 0", place)
                return
            self._catalog.add(descriptor)
        except (DescriptorConflict, EncodingError) as error:
            self._report(Rule.DESCRIPTOR_BYTES, f"{what}: {error}", place)

    def check_row(self, op: WriteValue | CommitIntent, place: BreachPlace) -> None:
        """Check that a row's descriptor stands before the row in its partition."""
        try:
            table = _TableIn(place.partition, table_id_of(op.key))
        except EncodingError:
            return  # it is not a table's key, but the store's own data
        modified = self._modified.get(table)
        if (modified is None or modified > op.timestamp) and place.partition not in self._cut:
            self._report(
                Rule.DESCRIPTOR,
                f"partition {table.partition} has none for table {table.table_id} at {op.timestamp}",
                place,
            )
        self._highs[table] = max(op.timestamp, self._highs.get(table, op.timestamp))

    def _check_in_time(self, update: DescriptorUpdate, table: _TableIn, place: BreachPlace) -> None:
        """Check that a new table version stands in the log before every row that it governs."""
        known = self._versions.get(table)
        if known is not None and known >= update.version:
            return
        self._versions[table] = update.version
        if known is None and table.partition in self._cut:
            return  # it may be a copy of one from before the beginning of the partition
        high = self._highs.get(table)
        if high is not None and high >= update.modified:
            self._report(
                Rule.DESCRIPTOR,
                f"partition {table.partition} has version {update.version} of table {table.table_id} from "
                f"{update.modified} on after a row at {high}",
                place,
            )

    def finish(self, horizon_ms: int, *, ended: bool) -> None:
        """Report the versions that some partition lacks.

        ``horizon_ms`` is the record time up to which all partitions were read. In a log that has ``ended``
        each partition must have each version as often as the others.
        """
        whole = [number for number in range(self._partitions) if number not in self._cut]
        for update, (counts, first_ms) in self._broadcasts.items():
            if not ended and horizon_ms < first_ms + _BROADCAST_MS:
                continue
            lacking = [number for number in whole if not counts.get(number)]
            what = f"version {update.version} of table {update.table_id}"
            if lacking:
                named = ", ".join(map(str, lacking))
                self._report(Rule.PARTITION, f"{what} is not broadcast to partition {named}", None)
            elif ended and len({counts[number] for number in whole}) > 1:
                self._report(Rule.PARTITION, f"{what} is not broadcast to every partition alike", None)
