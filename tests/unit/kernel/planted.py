"""Differences that are planted between the kernel and Python: whoever compares both must find each.

They stand in Python's side of the messages, so that the kernel itself is the one that is shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from struct import pack
from typing import Any, Final

import pytest

from tests.logs import Record
from tidegate.changefeed.encoding.avro.body import NULL_BYTES
from tidegate.changefeed.encoding.json.template import literals
from tidegate.changefeed.encoding.row_templates import (
    Body,
    DatumForm,
    DatumPlace,
    ReplacedTemplates,
    RowTemplates,
    Stamp,
)
from tidegate.errors import MalformedEntry
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.kernel import log_message, message, partition_kernel, plan
from tidegate.processor.batch import LogRecord
from tidegate.processor.catchup.gap_scans import GapScans
from tidegate.processor.feeds import kernel_rows
from tidegate.processor.feeds.feed_kernels import FeedKernels, version_plan
from tidegate.processor.feeds.kernel_rows import KernelRows
from tidegate.processor.feeds.log_kernel import LogState, MovedRange, MovedTxn, PlainRange
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_kernel import FeedRecords, LanePlan, TablePlan, Taken
from tidegate.processor.feeds.taken_versions import TakenVersions, joined_taken
from tidegate.processor.plain_records import PlainRecords
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import (
    Command,
    CommitIntent,
    Generation,
    Op,
    RaftIndex,
    RangeId,
    TxnId,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.range_state import RangeState
from tidegate.ranges.version import Version
from tidegate.rows import Kind, SqlType, TableDescriptor
from tidegate.rows.row_layout import RowLayout
from tidegate.spans import Span


def _as_kind(kind: Kind, other: Kind) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setitem(plan._NUMBERS, kind, plan._NUMBERS[other])


def _other_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversed_labels(of: SqlType) -> bytes:
        labels = [member.label for member in of.members][::-1]
        members = [replace(each, label=label) for each, label in zip(of.members, labels, strict=True)]
        return labels_of(replace(of, members=tuple(members)))

    labels_of = plan._labels
    monkeypatch.setattr(plan, "_labels", reversed_labels)


def _other_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    part = plan._key_part
    monkeypatch.setattr(plan, "_key_part", lambda column, slot, _: part(column, slot, False))


def _no_composites(monkeypatch: pytest.MonkeyPatch) -> None:
    def layout(table: TableDescriptor) -> RowLayout:
        found = layout_of(table)
        found.composites = ()
        return found

    layout_of = plan._layout
    monkeypatch.setattr(plan, "_layout", layout)


def _other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "literals", lambda member: [*literals(member)[:-1], "] "])


def _other_lane(change: Callable[[LanePlan], LanePlan]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        lane = plan._lane
        monkeypatch.setattr(plan, "_lane", lambda of, *rest: lane(change(of), *rest))

    return plant


def _other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def modified_later(version: Any, *rest: Any) -> bytes:
        written: bytes = version_of(version, *rest)
        wall, logical = version.since
        return pack("<2q", wall + 7 * 10**9, logical) + written[16:]

    version_of = plan._version
    monkeypatch.setattr(plan, "_version", modified_later)


def _with_versions(change: Callable[[Version], Version]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def write(versions: Sequence[Version], *, with_previous: bool) -> bytes:
            return write_versions([change(version) for version in versions], with_previous=with_previous)

        write_versions = message.write_versions
        monkeypatch.setattr("tidegate.kernel.partition_kernel.write_versions", write)
        # So that all live versions come this way, as they do where the kernel does not follow the log.
        monkeypatch.setattr(PlainRecords, "_can_follow", lambda _: False)

    return plant


def _no_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.processor.feeds.kernel_rows.BatchEmission.raise_highs", lambda *_: None)


def _templates(change: Callable[[RowTemplates], RowTemplates]) -> Callable[[pytest.MonkeyPatch], None]:
    return _other_lane(lambda lane: lane._replace(templates=change(lane.templates)))


def _without_previous(templates: RowTemplates) -> RowTemplates:
    """Return the templates as if no row had replaced another."""
    replaced = templates.replaced
    return templates._replace(replaced=replaced and ReplacedTemplates(templates.row, templates.deletion))


def _without_key(templates: RowTemplates) -> RowTemplates:
    """Return the templates of changes as if the deletion of a row that was not there did not show its key."""
    deletion = templates.deletion
    if not isinstance(deletion, Body):
        return templates
    pieces = (NULL_BYTES if isinstance(piece, DatumPlace) else piece for piece in deletion.pieces)
    return templates._replace(deletion=Body(tuple(pieces)))


def _other_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = plan._parameters
    monkeypatch.setattr(plan, "_parameters", lambda of: parameters(replace(of, scale=of.scale + 1)))


def _other_lane_of(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    lane_of = plan._lane_of
    monkeypatch.setattr(plan, "_lane_of", lambda lane: lane_of(lane)._replace(**changed))


PLANTED_IN_ROWS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "a column is read or printed as another kind": _as_kind(Kind.TIMESTAMPTZ, Kind.TIMESTAMP),
    "an integer that is read as an OID": _as_kind(Kind.INT, Kind.OID),
    "a number that prints as text": _as_kind(Kind.OID, Kind.INT),
    "a number without a sign": _as_kind(Kind.PG_LSN, Kind.INT),
    "the labels of an enum": _other_labels,
    "the direction of a key": _other_direction,
    "a key that its value completes": _no_composites,
    "the text around datums": _other_text,
    "the partition": _other_lane(lambda lane: lane._replace(to=lane.to._replace(partitions=7))),
    "the start of a feed": _other_lane(lambda lane: lane._replace(start=lane.start.prev())),
    "the template of a row": _templates(lambda each: each._replace(row=each.deletion)),
    "the key of a deletion": _templates(lambda each: each._replace(deleted_key=each.deletion)),
    "the row before": _templates(_without_previous),
    "a previous value": _with_versions(
        lambda version: version if version.prev_value is None else version._replace(prev_value=b"")
    ),
    "tombstones": _templates(lambda each: each._replace(tombstones=False)),
    "the limit of a row's bytes": _templates(lambda each: each._replace(max_bytes=None)),
    "the headers of a feed": lambda monkeypatch: _other_lane_of(monkeypatch, headers=()),
    "a value without text": lambda monkeypatch: _other_lane_of(monkeypatch, empty=b""),
    "a datum of Avro": lambda monkeypatch: _other_forms(monkeypatch, {DatumForm.AVRO: plan._JSON}),
    "a time of Avro": lambda monkeypatch: monkeypatch.setattr(plan, "_STAMPS", dict.fromkeys(Stamp, 6)),
    "the digits of a decimal": _other_scale,
    "the schemas of a record": lambda monkeypatch: _other_lane_of(monkeypatch, to=None),
    "the version of a table": _other_version,
    "the time of a row": _with_versions(lambda version: version._replace(timestamp=version.timestamp.next())),
    "where a row came from": _with_versions(lambda version: version._replace(ordinal=version.ordinal + 1)),
    "what its writer wants omitted": _with_versions(
        lambda version: version._replace(omit_in_rangefeeds=False)
    ),
    "the highest time of a table": _no_highs,
}


def _other_forms(monkeypatch: pytest.MonkeyPatch, forms: dict[DatumForm, int]) -> None:
    monkeypatch.setattr(plan, "_FORMS", plan._FORMS | forms)


def _other_stamp(monkeypatch: pytest.MonkeyPatch, stamp: Stamp, like: Stamp) -> None:
    monkeypatch.setattr(plan, "_STAMPS", plan._STAMPS | {stamp: plan._STAMPS[like]})


def _other_width(monkeypatch: pytest.MonkeyPatch, kind: Kind, width: int) -> None:
    parameters = plan._parameters
    monkeypatch.setattr(
        plan, "_parameters", lambda of: parameters(replace(of, width=width) if of.kind is kind else of)
    )


_FORMS: Final = plan._FORMS
#: In rows with the types of Kafka Connect.
PLANTED_IN_CONNECT: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "a datum of a row": lambda patch: _other_forms(patch, {DatumForm.CONNECT: _FORMS[DatumForm.AVRO]}),
    "a datum of a row in the form of a key": lambda patch: _other_forms(
        patch, {DatumForm.CONNECT: _FORMS[DatumForm.NULLABLE_CONNECT_KEY]}
    ),
    "a datum of a key in the form of a row": lambda patch: _other_forms(
        patch, {DatumForm.NULLABLE_CONNECT_KEY: _FORMS[DatumForm.CONNECT]}
    ),
    "the branch of a key": lambda patch: _other_forms(
        patch, {DatumForm.CONNECT_KEY: _FORMS[DatumForm.NULLABLE_CONNECT_KEY]}
    ),
    "milliseconds": lambda patch: _other_stamp(patch, Stamp.WALL_MS, Stamp.WALL_NS),
    "the width of a float": lambda patch: _other_width(patch, Kind.FLOAT, 64),
    "the width of an integer": lambda patch: _other_width(patch, Kind.INT, 64),
    "the digits of a decimal": _other_scale,
    "a time as text": _as_kind(Kind.TIMESTAMPTZ, Kind.TIMESTAMP),
    "a deletion where no row was": _templates(_without_key),
}


# ---- in what the kernel follows of the log ----


def _moved(change: Callable[[MovedRange], MovedRange]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        read = log_message._moved_range
        monkeypatch.setattr(log_message, "_moved_range", lambda numbers: change(read(numbers)))

    return plant


def _changed(change: Callable[[MovedTxn], MovedTxn]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        read = log_message._moved_txn
        monkeypatch.setattr(log_message, "_moved_txn", lambda *args: change(read(*args)))

    return plant


def _given(change: Callable[[PlainRange], PlainRange]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def write(state: LogState) -> bytes:
            ranges = [None if plain is None else change(plain) for plain in state.ranges]
            return write_state(state._replace(ranges=ranges))

        write_state = log_message.write_state
        monkeypatch.setattr(partition_kernel, "write_state", write)

    return plant


def _other_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.processor.log_clock.LogClock.go_on", lambda *_: None)


def _not_plain_but_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(records: PlainRecords, range_id: RangeId) -> RangeState | None:
        state = records._table.states.get(range_id)
        return None if state is None or state.span is None else state

    monkeypatch.setattr(PlainRecords, "_plain", plain)


def _no_high(monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_message.read_followed
    monkeypatch.setattr(partition_kernel, "read_followed", lambda *args: read(*args)._replace(high=ZERO))


def _decoded_as(change: Callable[[Command], Command]) -> Callable[[pytest.MonkeyPatch], None]:
    """The kernel reads commands as others than they are."""

    def changed(record: LogRecord) -> LogRecord:
        try:
            entry = decode_entry(record.key, record.value)
        except MalformedEntry:
            return record
        if not isinstance(entry, Command) or not entry.ops:
            return record
        return Record(record.offset, record.key, encode_entry(change(entry)), record.timestamp)

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        write = log_message.write_records
        monkeypatch.setattr(
            partition_kernel, "write_records", lambda records, most: write([*map(changed, records)], most)
        )

    return plant


def _with_ops(change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return _decoded_as(lambda command: command._replace(ops=tuple(map(change, command.ops or ()))))


def _of_other_txn(op: Op) -> Op:
    return op._replace(txn_id=TxnId(op.txn_id[::-1])) if isinstance(op, WriteIntent | CommitIntent) else op


def _later(op: Op) -> Op:
    return op._replace(timestamp=op.timestamp.next()) if isinstance(op, WriteValue | CommitIntent) else op


def _without_value(op: Op) -> Op:
    return op._replace(value=b"") if isinstance(op, WriteValue | CommitIntent) else op


PLANTED_IN_DECODING: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "the time of a version": _with_ops(_later),
    "the value of a version": _with_ops(_without_value),
    "the transaction of an intent": _with_ops(_of_other_txn),
    "what a command closes": _decoded_as(lambda command: command._replace(closed=None)),
}

PLANTED_IN_LOGS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "the applied index": _moved(lambda moved: moved._replace(applied=RaftIndex(moved.applied + 1))),
    "what is closed": _moved(lambda moved: moved._replace(closed=moved.closed.next())),
    "what is resolved": _moved(lambda moved: moved._replace(resolved=moved.resolved.next())),
    "the highest version of a range": _moved(lambda moved: moved._replace(high=moved.high.next())),
    "a heartbeat that waits": _moved(lambda moved: moved._replace(pends_anew=False)),
    "closed timestamps that fall": _moved(lambda moved: moved._replace(regressions=0)),
    "the count of intents": _changed(lambda txn: txn._replace(refs=txn.refs and txn.refs + 1)),
    "the timestamp of a transaction": _changed(lambda txn: txn._replace(timestamp=txn.timestamp.next())),
    "the anchor of a transaction": _changed(lambda txn: txn._replace(anchor=None)),
    "a transaction that ended": _changed(lambda txn: txn._replace(dropped=False)),
    "the oldest transaction beside": _given(lambda plain: plain._replace(beside=None)),
    "the bounds of a range": _given(lambda plain: plain._replace(span=Span(b"\x00", b"\xff\xff\xff\xff"))),
    "the generation": _given(lambda plain: plain._replace(generation=Generation(plain.generation + 1))),
    "the log clock": _other_clock,
    "which ranges are plain": _not_plain_but_taken,
    "the highest version of the partition": _no_high,
}


# ---- where feeds miss versions ----


def _given_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions in gaps are not held back for the scans of the feeds that miss them."""

    def give_all(scans: GapScans, state: RangeState, versions: Sequence[Version]) -> None:
        gaps, state.gaps = state.gaps, {}
        original(scans, state, versions)
        state.gaps = gaps

    original = GapScans.give_or_hold
    commit = PlainRecords._commit

    def committing(records: PlainRecords, *arguments: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(GapScans, "give_or_hold", give_all)
            commit(records, *arguments)

    monkeypatch.setattr(PlainRecords, "_commit", committing)


def _other_order(monkeypatch: pytest.MonkeyPatch) -> None:
    given = TakenVersions.given

    def turned(taken: TakenVersions, feed: PartitionFeed, versions: Iterable[Version]) -> FeedRecords:
        records = given(taken, feed, versions)
        return records._replace(records=[*reversed(records.records)], unframed=records.unframed[::-1])

    monkeypatch.setattr(TakenVersions, "given", turned)


def _of_scans(change: Callable[[LanePlan], LanePlan]) -> Callable[[pytest.MonkeyPatch], None]:
    return _other_lane(lambda lane: lane if lane.scanned_at is None else change(lane))


def _later_scan(lane: LanePlan) -> LanePlan:
    return lane._replace(scanned_at=lane.scanned_at and lane.scanned_at.next())


def _newest_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def scanned(kernels: FeedKernels, feed: PartitionFeed, at: Timestamp) -> Iterator[TablePlan]:
        for table_id in sorted(feed.table_ids):
            newest = kernels._rows.catalog.versions(table_id)[-1:]
            plans = tuple(version_plan(table, Timestamp(-1), [feed], at) for table in newest)
            yield TablePlan(table_id, Timestamp(-1), plans)

    monkeypatch.setattr(FeedKernels, "_scanned", scanned)


def _taken_alone(change: Callable[[Taken], Taken]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def changed(kernels: FeedKernels, *arguments: Any) -> Taken | None:
            taken = make_records(kernels, *arguments)
            return None if taken is None else change(taken)

        make_records = FeedKernels.make_records
        monkeypatch.setattr(FeedKernels, "make_records", changed)

    return plant


def _omitted_of_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    write = message.write_versions

    def omitting(versions: Sequence[Version], *, with_previous: bool) -> bytes:
        ours = [each if each.raft_index else each._replace(omit_in_rangefeeds=True) for each in versions]
        return write(ours, with_previous=with_previous)

    monkeypatch.setattr(partition_kernel, "write_versions", omitting)


def _told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_message.read_versions

    def later(found: bytes, records: bytes) -> list[Version]:
        return [each._replace(timestamp=each.timestamp.next()) for each in read(found, records)]

    monkeypatch.setattr(partition_kernel, "read_versions", later)


def _at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    def joined(parts: Sequence[tuple[int, Taken]]) -> Taken:
        return joined_taken([(0, part) for _, part in parts])

    monkeypatch.setattr(kernel_rows, "joined_taken", joined)


def _behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def behind(one: FeedRecords, other: FeedRecords) -> FeedRecords:
        return FeedRecords(
            [*one.records, *other.records], one.unframed + other.unframed, one.numbers + other.numbers
        )

    monkeypatch.setattr(kernel_rows, "woven", behind)


PLANTED_AMID_GAPS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "when a range was heard": _moved(lambda moved: moved._replace(heard_ms=moved.heard_ms + 1)),
    "the highest times of a parted feed's tables": lambda patch: patch.setattr(
        KernelRows, "_highs", lambda *_: {}
    ),
    "what a feed with gaps is given": _given_to_all,
    "the order of a parted feed's rows": _other_order,
    "the times of versions that were followed": _told_later,
    "where rows that are written already stand": _at_the_beginning,
    "where a scan's rows stand among live ones": _behind,
}

#: In what kernels of single feeds write.
PLANTED_IN_SCANS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "the time of a scan": _of_scans(_later_scan),
    "the start of a feed with a scan": _of_scans(lambda lane: lane._replace(start=MAX)),
    "the letter of a row that a scan found": lambda patch: patch.setattr(
        RowTemplates, "of_scan", lambda templates: templates._replace(replaced=None)
    ),
    "the row before a row that a scan found": lambda patch: patch.setattr(
        RowTemplates, "of_scan", lambda templates: templates
    ),
    "the descriptor of a scan": _newest_descriptor,
    "the highest times of what a scan found": _taken_alone(lambda taken: taken._replace(highs={})),
    "the rows of a scan that Python writes": _taken_alone(lambda taken: taken._replace(refused=[])),
    "what is to be omitted of a scan": _omitted_of_scans,
}
