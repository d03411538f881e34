"""The auditor: reads output topics and says whether they keep their promises.

From the topics alone it checks these rules: rows of a key come in order; no unseen row follows a marker that
covers it; repeats are exact; markers never fall, and no partition lacks one; keys stand in their partitions.
``ViolationKind`` has all rules. With the source's history it also checks that every committed version is
there, and no other row.

If the topics of a feed were given more partitions, its keys have moved. Then audit the records from before
and those from after separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.changefeed.definition.options import Envelope, InitialScan
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.errors import InputError, MalformedRecord
from tidegate.hlc import Timestamp
from tidegate.verify.history import ExpectedRows, ExpectedVersion, VersionId
from tidegate.verify.marker_ledger import MarkerLedger
from tidegate.verify.memory import VersionMemory
from tidegate.verify.other_feeds import FeedBounds, OtherFeedsRecords
from tidegate.verify.partition import PartitionAudit
from tidegate.verify.record import TopicPartition, TopicRecord
from tidegate.verify.report import AuditCounts, AuditReport, Unchecked, Verdict
from tidegate.verify.resolved_topic import ResolvedTopic
from tidegate.verify.start_rules import StartRules
from tidegate.verify.tombstones import Tombstones
from tidegate.verify.unchecked import Audited, Losses, unchecked_rules
from tidegate.verify.violation import Findings, ViolationKind, key_text

#: Reads the rows and markers of feeds that are created without a format or an envelope.
WRAPPED_JSON: Final = JsonDecoder(Envelope.WRAPPED)
#: Reads the markers of a ``resolved_topic``, whatever the feed's format.
OFFSET_MARKERS: Final[RecordDecoder] = OffsetMarkerDecoder()


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The facts about the topics that their records do not show.

    * ``start`` is the feed's start. The feed's rows stand above it, except those of an ``initial_scan``:
      they tell the start itself. ``None`` for ``start`` or ``initial_scan`` says that it is not known.
    * ``succeeded`` says that the feed has written all its rows. They need not be covered by a marker then.
    * ``horizon_ns`` bounds memory: versions that are more than so many nanoseconds below their partition's
      last marker may be forgotten. Then some rows stay undecided (``memory.py``). With ``None`` all versions
      are remembered.
    * ``truncated`` names the partitions whose beginning has been deleted, ``compacted`` the topics in which
      compaction removes a key's older rows.
    * ``violation_limit`` bounds how many violations are kept. All are counted.
    * ``row_keys`` is false for a feed with ``key_column``: its keys do not say which row a record is.
    * ``resolved_topic`` is the topic of the feed's markers; empty if they stand among the rows.
    * ``ends`` are the ends of the partitions of rows. They are asked for after the end of the markers' topic.
    * ``settled`` are ends of partitions that were asked for first. The ends up to which the topics are read
      were asked for later, since several brokers do not tell their ends at one moment. A partition that
      ``settled`` does not name was at rest.
    * ``bounds`` tells which records are the feed's own, if others have had its topics.
    """

    start: Timestamp | None = None
    initial_scan: InitialScan | None = InitialScan.NO
    succeeded: bool = False
    horizon_ns: int | None = None
    truncated: frozenset[TopicPartition] = frozenset()
    compacted: frozenset[str] = frozenset()
    violation_limit: int = 100
    row_keys: bool = True
    resolved_topic: str = ""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    settled: Mapping[TopicPartition, int] = field(default_factory=dict)
    bounds: FeedBounds | None = None

    def lost_rows(self, place: TopicPartition) -> bool:
        """Whether rows that were written to the partition may be gone."""
        return place in self.truncated or place.topic in self.compacted


class Auditor:
    """Audits the topics of one feed.

    ``topics`` gives each topic's partition count. Records of one partition are fed in offset order, those of
    different partitions in any order. But the records of a ``resolved_topic``, which is one of ``topics``,
    come before all others. ``decoder`` reads the feed's rows, and markers among them. Raises ``InputError``
    if there is no topic, and what ``ExpectedRows`` raises.
    """

    def __init__(
        self,
        topics: Mapping[str, int],
        options: AuditOptions = AuditOptions(),
        decoder: RecordDecoder = WRAPPED_JSON,
        expected: Iterable[ExpectedVersion] | None = None,
    ) -> None:
        if not topics:
            raise InputError("There is no topic to audit.")
        self._topics = dict(topics)
        self._options = options
        self._decoder = decoder
        self._findings = Findings(options.violation_limit)
        self._start_rules = StartRules(options.start, options.initial_scan, self._findings)
        bounds = options.bounds
        self._others = None if bounds is None else OtherFeedsRecords(bounds, self._start_rules.told)
        self._compared = expected is not None
        # Without row keys two rows may have one key and one timestamp: their versions look the same.
        known = None if not options.row_keys else expected
        self._expected = None if known is None else ExpectedRows(known, topics, options.start)
        places = [TopicPartition(topic, i) for topic, count in topics.items() for i in range(count)]
        aside = options.resolved_topic
        self._aside = ResolvedTopic(aside, topics, self._findings) if aside else None
        marked = [place for place in places if place.topic == aside] if aside else places
        self._ledger = MarkerLedger(marked, options.truncated)
        self._partitions = {(place.topic, place.partition): self._partition(place) for place in places}

    def feed(self, records: Iterable[TopicRecord]) -> None:
        """Check records. Raises ``InputError`` for one out of offset order, or of a partition not audited."""
        for record in records:
            partition = self._partitions.get((record.topic, record.partition))
            if partition is None:
                raise InputError(
                    f"A record of {record.topic}[{record.partition}] was given, which is not being audited."
                )
            partition.advance(record)
            self._audit_record(partition, record)

    def finish(self) -> AuditReport:
        """Look for missing rows and markers, and return the outcome. Nothing can be fed afterwards."""
        if self._aside is not None:
            self._pass_last_markers(self._aside)
        self._start_rules.finish()
        self._find_absent_markers()
        self._find_missing_rows()
        counts = self._counts()
        unclear = sum(partition.counts.unclear for partition in self._partitions.values())
        unchecked = tuple(unchecked_rules(counts, self._losses(), self._audited(), unclear))
        return AuditReport(
            verdict=self._verdict(unchecked),
            counts=counts,
            violations=tuple(self._findings.kept),
            violation_counts=dict(self._findings.counts),
            unchecked=unchecked,
            covered=self._covered(),
        )

    def _partition(self, place: TopicPartition) -> PartitionAudit:
        truncated = self._options.lost_rows(place)
        tombstones = None
        if self._decoder.tombstones:
            deletions = VersionMemory(self._options.horizon_ns, truncated=truncated)
            tombstones = Tombstones(deletions, self._findings)
        return PartitionAudit(
            place,
            partition_count=self._topics[place.topic],
            memory=VersionMemory(self._options.horizon_ns, truncated=truncated),
            findings=self._findings,
            start_rules=self._start_rules,
            expected=self._expected,
            tombstones=tombstones,
            row_keys=self._options.row_keys,
        )

    def _audit_record(self, partition: PartitionAudit, record: TopicRecord) -> None:
        aside, others = self._aside, self._others
        if others is not None and others.passes_over(partition.place):
            return
        decoder = self._decoder if aside is None or record.topic != aside.name else OFFSET_MARKERS
        try:
            decoded = decoder.decode(record.key, record.value, record.headers)
        except MalformedRecord as error:
            if others is not None and others.may_have(record):
                partition.counts.unclear += 1
                return
            sentence = f"Offset {record.offset} of {partition.place} is neither a row nor a marker: {error}."
            self._findings.at(ViolationKind.UNREADABLE, record, None, sentence)
            return
        if others is not None and others.has(partition.place, record, decoded):
            return
        if isinstance(decoded, MarkerRecord):
            self._take_marker(partition, record, decoded)
            return
        if aside is not None:
            partition.pass_marker(aside.pass_to(partition.place, record.offset))
        if others is not None and others.is_unclear(record, decoded):
            partition.take_unclear_row(record, record.key or b"")
        else:
            partition.take_row(record, record.key or b"", decoded)

    def _take_marker(self, partition: PartitionAudit, record: TopicRecord, marker: MarkerRecord) -> None:
        aside = self._aside
        if aside is not None and record.topic != aside.name:
            sentence = (
                f"Offset {record.offset} of {partition.place} is a marker; they belong on {aside.name}."
            )
            self._findings.at(ViolationKind.MARKER_AMONG_ROWS, record, marker.resolved, sentence)
            return
        if partition.take_marker(record, marker.resolved):
            settled = self._options.settled.get(partition.place, record.offset + 1)
            self._ledger.note(partition.place, marker.resolved, is_settled=record.offset < settled)
        if aside is not None:
            aside.lay(record, marker)

    def _pass_last_markers(self, aside: ResolvedTopic) -> None:
        """Pass the markers after the last row, as far as the topics were read."""
        aside.find_beyond(self._options.ends)
        for place in aside.lines:
            self._partitions[place].pass_marker(aside.pass_to(place, self._options.ends.get(place)))

    def _losses(self) -> Losses:
        options = self._options
        markers = sum(place.topic == options.resolved_topic for place in options.truncated)
        compacted = sum(self._topics[topic] for topic in options.compacted)
        return Losses(len(options.truncated) - markers, markers, compacted)

    def _find_absent_markers(self) -> None:
        for place, resolved in self._ledger.absences():
            sentence = f"{place} lacks the marker at {resolved}, which others have, and it is not the newest."
            self._findings.absent(ViolationKind.MARKER_MISSING, place, None, resolved, sentence)

    def _find_missing_rows(self) -> None:
        if self._expected is None:
            return
        for version in self._expected.missing(self._promised):
            home = self._home(version)
            sentence = (
                f"{home.place} lacks key {key_text(version.key)} at {version.timestamp}, which was committed"
                f" and which {self._promise(version, home)}."
            )
            self._findings.absent(
                ViolationKind.MISSING_ROW, home.place, version.key, version.timestamp, sentence
            )

    def _promised(self, version: VersionId) -> bool:
        home = self._home(version)
        covered = self._options.succeeded or version.timestamp <= home.marker
        return covered and not self._options.lost_rows(home.place)

    def _promise(self, version: VersionId, home: PartitionAudit) -> str:
        """Return the words of a finding that say why the version has to be there."""
        if version.timestamp <= home.marker:
            return f"its marker at {home.marker} covers"
        return "the feed, which has succeeded, has to hold"

    def _covered(self) -> Timestamp:
        marked = min(partition.marker for partition in self._partitions.values())
        return max(marked, self._options.start or marked) if self._options.succeeded else marked

    def _audited(self) -> Audited:
        options = self._options
        return Audited(
            compared=self._compared,
            row_keys=options.row_keys,
            initial_scan=options.initial_scan,
            succeeded=options.succeeded,
        )

    def _home(self, version: VersionId) -> PartitionAudit:
        topic = version.topic
        return self._partitions[topic, partition_of(version.key, self._topics[topic])]

    def _counts(self) -> AuditCounts:
        partitions = self._partitions.values()
        return AuditCounts(
            partitions=len(partitions),
            keys=sum(partition.memory.keys for partition in partitions),
            rows=sum(partition.counts.rows for partition in partitions),
            duplicates=sum(partition.counts.duplicates for partition in partitions),
            undecided=sum(partition.counts.undecided for partition in partitions),
            untimed=sum(partition.counts.untimed for partition in partitions),
            tombstones=sum(partition.counts.tombstones for partition in partitions),
            left_out=sum(partition.counts.left_out for partition in partitions),
            markers=sum(partition.counts.markers for partition in partitions),
            expected=0 if self._expected is None else len(self._expected),
            of_other_feeds=0 if self._others is None else self._others.count,
        )

    def _verdict(self, unchecked: tuple[Unchecked, ...]) -> Verdict:
        if self._findings.counts:
            return Verdict.VIOLATED
        return Verdict.INCOMPLETE if unchecked else Verdict.PASSED


def audit(
    records: Iterable[TopicRecord],
    topics: Mapping[str, int],
    options: AuditOptions = AuditOptions(),
    decoder: RecordDecoder = WRAPPED_JSON,
    expected: Iterable[ExpectedVersion] | None = None,
) -> AuditReport:
    """Audit all of ``records`` as ``Auditor`` does, and return the report."""
    auditor = Auditor(topics, options, decoder, expected)
    auditor.feed(records)
    return auditor.finish()
