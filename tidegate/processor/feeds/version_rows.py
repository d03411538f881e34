"""Makes rows of committed versions: the stage between the ranges and the feeds.

By default the kernel (``kernel/src/row.rs``) makes the records of most versions, without rows in Python. This
module makes the rows of those versions that the kernel does not take. Both give the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tidegate.changefeed.encoding.row_width import NO_LENGTHS, TableLengths, table_lengths
from tidegate.errors import (
    DescriptorConflict,
    EncodingError,
    FeedError,
    RowError,
    StateError,
    UnknownTable,
    brief,
)
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.containment import feed_error, unforeseen, unforeseen_in
from tidegate.processor.feeds.descriptor_room import DescriptorLimits, DescriptorRoom
from tidegate.processor.feeds.refused_versions import REFUSED_PREFIX, RefusedVersions
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import pack, unpack
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.ranges.version import Version
from tidegate.rows import (
    Catalog,
    Datum,
    Row,
    TableCodec,
    TableDescriptor,
    Unreadable,
    table_id_of,
)
from tidegate.rows.catalog import PrimaryIndex, TablePast
from tidegate.rows.decoded_descriptors import decoded_descriptor
from tidegate.rows.stored_descriptor import DescriptorHead, decode_head, head_of
from tidegate.spans import Span

_HIGH_PREFIX: Final = b"h"
_DESCRIPTOR_PREFIX: Final = b"d"
_UNFIT_PREFIX: Final = b"u"
_PAST_PREFIX: Final = b"p"
_REFUSED_SHOWN: Final = 3


class _Unfit(NamedTuple):
    """A descriptor version that could not be taken, and why."""

    version: int
    reason: str


class TableRowError(FeedError):
    """The error of a row that cannot be decoded or encoded, with the table that the row belongs to.

    ``unforeseen`` tells of the exception, where nobody foresaw it.
    """

    def __init__(self, table_id: int, version: Version, cause: FeedError) -> None:
        super().__init__(
            f"{cause} (range {version.range_id}, raft index {version.raft_index}, "
            f"at {version.timestamp.decimal()})"
        )
        self.table_id = table_id
        self.version = version
        self.unforeseen = unforeseen_in(cause)


#: A row; or the error that says why there is none; or ``None`` for a version that no feed wants.
Decoded: TypeAlias = Row | TableRowError | None


def table_of(row: Row | TableRowError) -> int:
    """Return the id of the table that a row belongs to, or that it cannot be read for."""
    return row.table_id if isinstance(row, TableRowError) else row.table.id


class Starts(NamedTuple):
    """The lowest start of the feeds that want a table's rows, for each table.

    ``previous`` has the same for the feeds that also want the values that rows replaced. Nobody wants a
    version at or below that start. If a table is not named here, all of its versions are wanted.
    """

    rows: Mapping[int, Timestamp]
    previous: Mapping[int, Timestamp]


_EVERY_VERSION: Final = Starts({}, {})


def _never(_: int) -> bool:
    return False


class PartitionRows:
    """The table descriptors that a partition knows, and the rows that it reads by them."""

    def __init__(self, limits: DescriptorLimits | None = None) -> None:
        self.catalog = Catalog()
        self.room = DescriptorRoom(limits or DescriptorLimits())
        #: Whether an active feed wants a table.
        self.is_wanted: Callable[[int], bool] = _never
        #: The highest timestamp of a decoded row of each table. A new descriptor that is valid from that
        #: time or earlier comes too late.
        self._highs: dict[int, Timestamp] = {}
        #: Versions, each by table id and number, that have come or were forgotten since the last freeze.
        self._changed_descriptors: dict[tuple[int, int], None] = {}
        self._changed_highs: set[int] = set()
        #: Tables with a descriptor version that could not be taken: no older version may read their rows.
        self._unfit: dict[int, _Unfit] = {}
        self._changed_unfit: set[int] = set()
        self._changed_pasts: set[int] = set()
        #: Rows of the times of refused versions cannot be read, even if a later version makes the table fit
        #: again.
        self._refused = RefusedVersions()
        #: The number of descriptor versions that were learnt. It grows with each one, and never falls.
        self.versions = 0
        #: For each table, the value of ``versions`` when a version of the table was learnt last.
        self._learnt: dict[int, int] = {}
        self._known = 0
        #: For each table, the lengths of its rows by the versions that were looked at, and the numbers of the
        #: versions that were not looked at yet.
        self._lengths: dict[int, TableLengths] = {}
        self._unmeasured: dict[int, list[int]] = {}

    def __len__(self) -> int:
        """Return the number of its rows of state."""
        left = len(self.catalog.pasts) + len(self._refused)
        return self._known + len(self._highs) + len(self._unfit) + left

    def learnt_since(self, table_ids: Iterable[int], versions: int) -> bool:
        """Return whether a version of any of the tables was learnt after the first ``versions`` ones."""
        if self.versions == versions:
            return False
        return any(self._learnt.get(table_id, 0) > versions for table_id in table_ids)

    def lengths(self, table_id: int) -> TableLengths:
        """Return the lengths that rows of a table may have, by all versions that the table has had."""
        for version in self._unmeasured.pop(table_id, ()):
            head = self.catalog.head(table_id, version)
            if head is not None:
                lengths = table_lengths(decoded_descriptor(head.stored, is_bounded=False))
                self._lengths[table_id] = lengths.widest(self._lengths.get(table_id, NO_LENGTHS))
        return self._lengths.get(table_id, NO_LENGTHS)

    @property
    def highs(self) -> Mapping[int, Timestamp]:
        """The highest timestamp of a decoded row, by table id."""
        return self._highs

    def is_new(self, update: DescriptorUpdate) -> bool:
        """Whether the update is not known yet. Then rows before it must be read first, without it."""
        return not self.catalog.has(update.table_id, update.version)

    def learn(self, update: DescriptorUpdate, place: str = "", lowest: Timestamp | None = None) -> None:
        """Take a descriptor version. ``place`` is where it stands, for the sentence about a refused one.

        ``lowest`` is the time of the lowest row of the range whose Snapshot has it; ``None``: it is a
        broadcast. A version that was forgotten is taken again only from a Snapshot whose rows may need it.

        Raises ``DescriptorConflict`` when the version comes too late: some rows that it governs were read by
        an older one. The version is known from here on, but feeds that emitted those rows must stop. Raises
        ``DescriptorConflict`` or ``EncodingError`` for a version that cannot be taken. If no later version is
        known, the table is unfit until a later version is taken, or until this one comes again and is taken.
        A copy of a version that was refused does nothing once a later version is known.
        """
        if update.table_id <= 0:
            raise DescriptorConflict(f"{update.table_id} is no table id: table ids are above 0")
        if self._is_forgotten(update, lowest):
            return
        late = self.is_new(update) and self._was_read_without(update)
        try:
            added = self._add(update, lowest)
        except (DescriptorConflict, EncodingError) as error:
            if self._is_refused_again(update):
                return
            self._refuse(
                update, f"{brief(str(error))} (it stands at {place})" if place else brief(str(error))
            )
            raise
        unfit = self._unfit.get(update.table_id)
        # A version that was refused and is taken now makes the table fit again only if it was not known: an
        # earlier release could not read it. If it was known the log has given two contents for one version,
        # and repeats one of them.
        if unfit is not None and (
            unfit.version < update.version or (added and unfit.version == update.version)
        ):
            self._set_unfit(update.table_id, None)
        if late:
            raise DescriptorConflict(
                f"version {update.version} of table {self._name_of(update)!r} is valid from "
                f"{update.modified}, but rows up to {self._highs[update.table_id]} were read before it "
                "arrived. The source broke the log contract; create the feed again"
            )

    def _add(self, update: DescriptorUpdate, lowest: Timestamp | None) -> bool:
        """Add a version to the catalog. Returns whether it is new."""
        catalog, table_id = self.catalog, update.table_id
        known = catalog.head(table_id, update.version)
        if known is not None:
            if known.stored == update.descriptor and known.modified == update.modified:
                return False
            # An earlier version of tidegate may have taken it without a bound.
            descriptor = _descriptor_of(update, is_bounded=False)
            _require_agreement(update, descriptor)
            return catalog.add(descriptor)
        if not (catalog.has_table(table_id) or table_id in self._unfit):
            self.room.require_table(len(self._unfit))
        descriptor = _descriptor_of(update)
        _require_agreement(update, descriptor)
        head = head_of(descriptor)
        size = len(head.stored)
        is_wanted = self.is_wanted(table_id)
        if self.room.must_look(size, is_wanted=is_wanted):
            self._forget(MAX if lowest is None else lowest)
        self.room.require(size, is_wanted=is_wanted)
        catalog.put(head)
        self._changed_descriptors[table_id, update.version] = None
        self._note(head)
        return True

    def _note(self, head: DescriptorHead) -> None:
        """Take in that the catalog has a version that it had not."""
        self._refused.note_known(head.id, head.version)
        self.room.note_kept(len(head.stored))
        self._known += 1
        self.versions += 1
        self._learnt[head.id] = self.versions
        self._unmeasured.setdefault(head.id, []).append(head.version)

    def _forget(self, coming: Timestamp) -> None:
        """Forget the versions by which no row is read any more.

        ``coming`` is the time of the lowest row of the range whose Snapshot is read now: the range has not
        taken that Snapshot yet.
        """
        lowest = min(self.room.lowest_read(), coming)
        for table_id in self.catalog.tables_before(lowest):
            for head in self.catalog.forget(table_id, lowest):
                self.room.give_back(len(head.stored))
                self._known -= 1
                self._changed_descriptors[table_id, head.version] = None
                self._changed_pasts.add(table_id)
            kept = [each for each in self._unmeasured.get(table_id, ()) if self.catalog.has(table_id, each)]
            if table_id in self._unmeasured:
                self._unmeasured[table_id] = kept
            self._refused.forget(table_id, partial(self._is_governed, table_id, lowest))
        self.room.looked()

    def _is_governed(self, table_id: int, timestamp: Timestamp, version: int) -> bool:
        return self.catalog.is_governed(table_id, version, timestamp)

    def _is_forgotten(self, update: DescriptorUpdate, lowest: Timestamp | None) -> bool:
        """Whether the update is of a version that was forgotten, and is not needed again.

        A range that comes from another partition may need it: its Snapshot has all versions by which its rows
        may still be read, down to ``lowest``. A version that is valid from a later time than a known one was
        not forgotten: it has the number of a forgotten version, and other content.
        """
        past = self.catalog.past(update.table_id)
        if past is None or update.version > past.version or not self.is_new(update):
            return False
        if self.catalog.has_before(update.table_id, update.modified):
            return False
        return lowest is None or self.catalog.is_governed(update.table_id, update.version, lowest)

    def _refuse(self, update: DescriptorUpdate, reason: str) -> None:
        """Take in that a version cannot be taken.

        Rows of its time cannot be read, whatever is known before or after it. If no later version is known,
        the whole table cannot be read.
        """
        table_id, version = update.table_id, update.version
        if not self._may_be_unfit(table_id):
            return
        is_new = self.is_new(update)
        if is_new:
            self._refused.add(table_id, version, update.modified)
        if not (is_new and self.catalog.is_followed(table_id, version, update.modified)):
            self._set_unfit(table_id, _Unfit(version, reason))

    def _is_refused_again(self, update: DescriptorUpdate) -> bool:
        """Whether the update is a copy of one that was refused, and a later version is known.

        Feeds that were active at the refusal have failed, and no feed has read rows of the version's time
        since.
        """
        table_id, version = update.table_id, update.version
        return (
            self.is_new(update)
            and self._refused.has(table_id, version, update.modified)
            and self.catalog.is_followed(table_id, version, update.modified)
        )

    def has_refused(self, table_id: int) -> bool:
        """Return whether a version of the table was refused, and rows of its time may still be read."""
        return self._refused.has_table(table_id)

    def read_by(self, table_id: int) -> Iterator[tuple[TableDescriptor, Timestamp, bool]]:
        """Yield which version governs rows of a table from which time on, and whether they can be read.

        Rows from the time of a refused version on, up to the next known version, cannot be read.
        """
        versions = self.catalog.versions(table_id)
        ends = [*(table.modified for table in versions[1:]), MAX]
        for table, end in zip(versions, ends, strict=False):  # a table may have no version yet
            refusal = self._refused.after(table_id, table.version)
            unread = end if refusal is None else max(table.modified, refusal.since)
            if unread > table.modified:
                yield table, table.modified, True
            if unread < end:
                yield table, unread, False

    def version_at(self, table_id: int, timestamp: Timestamp) -> TableDescriptor:
        """Return the version by which rows written at ``timestamp`` are read.

        Raises ``FeedError`` if there is none.
        """
        governing = self.catalog.version_at(table_id, timestamp)
        if self._refused.has_table(table_id):
            self._require_read(governing, timestamp)
        return governing

    def _codec_at(self, table_id: int, timestamp: Timestamp) -> TableCodec:
        """Return the codec for rows written at ``timestamp``. Raises ``FeedError`` if there is none."""
        codec = self.catalog.at(table_id, timestamp)
        if self._refused.has_table(table_id):
            self._require_read(codec.descriptor, timestamp)
        return codec

    def _require_read(self, governing: TableDescriptor, timestamp: Timestamp) -> None:
        refusal = self._refused.after(governing.id, governing.version)
        if refusal is not None and refusal.since <= timestamp:
            raise UnknownTable(
                f"{refusal} of table {governing.name} ({governing.id}), which is valid from {refusal.since}, "
                "was refused: rows of its time cannot be read"
            )

    def _may_be_unfit(self, table_id: int) -> bool:
        """Whether it is to be remembered that a table is unfit.

        It is not to be remembered if too many others are unfit. While they are, no further table is taken, so
        nothing reads its rows.
        """
        if table_id in self._unfit or self.catalog.has_table(table_id):
            return True
        return self.room.has_unfit(len(self._unfit))

    def _name_of(self, update: DescriptorUpdate) -> str:
        head = self.catalog.head(update.table_id, update.version)
        return "" if head is None else head.name

    def unfit(self, table_id: int) -> str:
        """Return why rows of the table cannot be read at present; empty when they can."""
        unfit = self._unfit.get(table_id)
        return "" if unfit is None else f"version {unfit.version} of table {table_id}: {unfit.reason}"

    def unfit_tables(self) -> list[str]:
        """Return a sentence for each unfit table, ``_REFUSED_SHOWN`` sentences at most."""
        return [self.unfit(table_id) for table_id in sorted(self._unfit)[:_REFUSED_SHOWN]]

    def primary_keys(self, table_id: int, first: Timestamp, last: Timestamp) -> tuple[Span, ...] | None:
        """See `Catalog.primary_keys`. The result is also ``None`` (not known) while the table is unfit, and
        for times at which a version of it was refused.
        """
        refused = self._refused.first(table_id)
        if table_id in self._unfit or (refused is not None and refused <= last):
            return None
        return self.catalog.primary_keys(table_id, first, last)

    def _was_read_without(self, update: DescriptorUpdate) -> bool:
        """Whether rows that the version governs were read by an older one.

        If there was no older version, such rows have failed, so none was read. A version that was forgotten
        was known when its rows were read. A version later than the forgotten ones that comes only now was not
        known then, and an older one has read its rows.
        """
        past = self.catalog.past(update.table_id)
        if past is not None and update.version <= past.version:
            return False
        if self._refused.has(update.table_id, update.version):
            return False  # feeds that had such rows before have failed, and none was read since
        if update.modified > self._highs.get(update.table_id, ZERO):
            return False
        return past is not None or self.catalog.has_before(update.table_id, update.modified)

    def _set_unfit(self, table_id: int, unfit: _Unfit | None) -> None:
        if unfit is None:
            self._unfit.pop(table_id, None)
        else:
            self._unfit[table_id] = unfit
        self._changed_unfit.add(table_id)

    def decode(
        self,
        versions: Sequence[Version],
        wanted: Container[int],
        wanted_previous: Container[int] = frozenset(),
        starts: Starts = _EVERY_VERSION,
        scanned_at: Timestamp | None = None,
    ) -> list[Decoded]:
        """Return a row, or its error, for each version that a feed wants, and ``None`` for each other one, in
        order.

        Versions of the tables in ``wanted`` above their ``starts`` are wanted, unless their writer wants them
        omitted from feeds. Rows of the tables in ``wanted_previous`` come with the values that they replaced.
        If these values cannot be read, the row comes all the same, for the feeds that do not need them.

        ``scanned_at`` is set for versions that an initial scan found at that time. They are read by the
        descriptor of that time, wherever feeds start.
        """
        if scanned_at is not None:
            return [self._decode_scanned(version, wanted, scanned_at) for version in versions]
        return [
            None if version.omit_in_rangefeeds else self._decode(version, wanted, wanted_previous, starts)
            for version in versions
        ]

    def _decode_scanned(self, version: Version, wanted: Container[int], scanned_at: Timestamp) -> Decoded:
        try:
            table_id = table_id_of(version.key)
        except EncodingError:
            return None
        if table_id not in wanted:
            return None
        self.raise_high(table_id, scanned_at)
        try:
            row = self._codec_at(table_id, scanned_at).decode(version.key, version.value)
            return None if row is None else row._replace(scanned_at=scanned_at)
        except Exception as error:
            return TableRowError(table_id, version, feed_error(error))

    def _decode(
        self, version: Version, wanted: Container[int], wanted_previous: Container[int], starts: Starts
    ) -> Decoded:
        try:
            table_id = table_id_of(version.key)
        except EncodingError:
            return None  # it is not a table's key, but the store's own data
        timestamp = version.timestamp
        if table_id not in wanted or timestamp <= starts.rows.get(table_id, ZERO):
            return None
        self.raise_high(table_id, timestamp)
        try:
            codec = self._codec_at(table_id, timestamp)
            row = codec.decode(version.key, version.value)
            if row is None or table_id not in wanted_previous:
                return row
            if timestamp <= starts.previous.get(table_id, ZERO):
                return row
            return row._replace(previous=_previous(codec, version))
        except Exception as error:
            return TableRowError(table_id, version, feed_error(error))

    def raise_high(self, table_id: int, timestamp: Timestamp) -> None:
        """Take in that a row of the table at ``timestamp`` was decoded."""
        if timestamp > self._highs.get(table_id, ZERO):
            self._highs[table_id] = timestamp
            self._changed_highs.add(table_id)

    def freeze(self) -> Iterator[StateChange]:
        """Yield the rows of state that changed since the last call."""
        for table_id, version in self._changed_descriptors:
            head = self.catalog.head(table_id, version)
            key = _DESCRIPTOR_PREFIX + table_id.to_bytes(8, "big") + version.to_bytes(8, "big")
            yield StateChange(StateTable.DESCRIPTORS, key, None if head is None else head.stored)
        for table_id in self._changed_highs:
            high = self._highs[table_id]
            stored = pack(pb.TableHigh(wall=high.wall, logical=high.logical))
            yield StateChange(StateTable.DESCRIPTORS, _HIGH_PREFIX + table_id.to_bytes(8, "big"), stored)
        for table_id in self._changed_unfit:
            yield StateChange(
                StateTable.DESCRIPTORS, _UNFIT_PREFIX + table_id.to_bytes(8, "big"), self._unfit_row(table_id)
            )
        yield from self._refused.freeze()
        for table_id in sorted(self._changed_pasts):
            key = _PAST_PREFIX + table_id.to_bytes(8, "big")
            yield StateChange(StateTable.DESCRIPTORS, key, self._past_row(table_id))
        self._changed_descriptors = {}
        self._changed_pasts = set()
        self._changed_highs = set()
        self._changed_unfit = set()

    def _unfit_row(self, table_id: int) -> bytes | None:
        unfit = self._unfit.get(table_id)
        return None if unfit is None else pack(pb.UnfitTable(version=unfit.version, reason=unfit.reason))

    def _past_row(self, table_id: int) -> bytes:
        past = self.catalog.pasts[table_id]
        indexes = (
            pb.PastIndex(wall=since.wall, logical=since.logical, index_id=index_id)
            for since, index_id in past.indexes
        )
        return pack(pb.TablePast(version=past.version, indexes=indexes))

    def restore(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Put back the rows of the descriptors table, each (key, value), that ``freeze`` gave."""
        for key, value in rows:
            if key.startswith(_HIGH_PREFIX):
                high = unpack(pb.TableHigh, value, "a table's highest row timestamp")
                self._highs[int.from_bytes(key[1:], "big")] = Timestamp(high.wall, high.logical)
            elif key.startswith(_UNFIT_PREFIX):
                unfit = unpack(pb.UnfitTable, value, "a table that cannot be read")
                self._unfit[int.from_bytes(key[1:], "big")] = _Unfit(unfit.version, unfit.reason)
            elif key.startswith(REFUSED_PREFIX):
                self._refused.restore(key, value)
            elif key.startswith(_PAST_PREFIX):
                past = unpack(pb.TablePast, value, "what is left of a table's forgotten versions")
                indexes = (
                    PrimaryIndex(Timestamp(each.wall, each.logical), each.index_id) for each in past.indexes
                )
                self.catalog.set_past(int.from_bytes(key[1:], "big"), TablePast(past.version, tuple(indexes)))
            else:
                head = _restored(value)
                if not self.catalog.has(head.id, head.version):
                    self.catalog.put(head)
                    self._note(head)


def _restored(stored: bytes) -> DescriptorHead:
    try:
        return decode_head(stored)
    except EncodingError as error:
        raise StateError(
            f"a table descriptor in the stored state cannot be read: {error}. Use the version of tidegate "
            "that wrote it, or a newer one"
        ) from None


def _descriptor_of(update: DescriptorUpdate, *, is_bounded: bool = True) -> TableDescriptor:
    """Return the descriptor of an update. Raises ``EncodingError`` if it cannot be read."""
    try:
        return decoded_descriptor(update.descriptor, is_bounded=is_bounded)
    except EncodingError:
        raise
    except Exception as error:
        raise EncodingError(unforeseen(error)) from error


def _previous(codec: TableCodec, version: Version) -> tuple[Datum, ...] | Unreadable | None:
    """Return the datums that the version replaced; see ``Row.previous``."""
    if version.prev_value is None:
        return None
    try:
        replaced = codec.decode(version.key, version.prev_value)
    except RowError as error:
        return Unreadable(str(error))
    return () if replaced is None or replaced.values is None else replaced.values


def _require_agreement(update: DescriptorUpdate, descriptor: TableDescriptor) -> None:
    named = (update.table_id, update.version, update.modified)
    if named != (descriptor.id, descriptor.version, descriptor.modified):
        raise DescriptorConflict(
            f"the log announces version {update.version} of table {update.table_id} from {update.modified} "
            f"on, but carries version {descriptor.version} of table {descriptor.id} from "
            f"{descriptor.modified} on"
        )
