"""Decodes records of the log into entries."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import MalformedEntry
from tidegate.processor.batch import LogRecord
from tidegate.processor.breaking import refused_record
from tidegate.processor.containment import Input, InputPlace, Refused, unforeseen
from tidegate.processor.refused import KEPT_OF_A_STEP, RefusedRecord
from tidegate.raftlog.decode import decode_batch, decode_entry
from tidegate.raftlog.entry import Entry, ScanChunk
from tidegate.ranges.backlog import RawEntry


class EntryReader:
    """The decoder of one partition's records.

    It treats a record whose place is in ``refused`` as malformed.
    """

    def __init__(self) -> None:
        self.refused: Refused = {}
        self._broken: list[RefusedRecord] = []
        #: A chunk that came alone: it is given again until all of its rows were taken.
        self._chunk: tuple[LogRecord, ScanChunk] | None = None

    def read(self, records: Sequence[LogRecord]) -> list[Entry | MalformedEntry]:
        """Return, for each record, its entry, or the error that says why it has none."""
        if not records:
            return []
        if self._chunk is not None and len(records) == 1 and self.is_amid(records[0]):
            return [self._refusal(records[0]) or self._chunk[1]]
        self._chunk = None
        try:
            entries = decode_batch((record.key, record.value) for record in records)
        except Exception:
            entries = [self._read(record) for record in records]
        if len(entries) == 1 and isinstance(entry := entries[0], ScanChunk):
            self._chunk = records[0], entry
        if self.refused:
            return [self._refusal(record) or entry for record, entry in zip(records, entries, strict=True)]
        return entries

    def is_amid(self, record: LogRecord) -> bool:
        """Whether this is the chunk of a scan that was read last, alone."""
        return self._chunk is not None and record is self._chunk[0]

    def read_again(self, raw: RawEntry) -> Entry:
        """Return the entry of a record from a backlog. Raises ``MalformedEntry`` where it has none."""
        refusal = self._refusal(raw)
        if refusal is not None:
            raise refusal
        return decode_entry(raw.key, raw.value)

    def take_broken(self) -> list[RefusedRecord]:
        """Return the records that met an unforeseen exception since the last call.

        There are ``KEPT_OF_A_STEP`` at most.
        """
        broken, self._broken = self._broken, []
        return broken

    def _read(self, record: LogRecord) -> Entry | MalformedEntry:
        try:
            return decode_entry(record.key, record.value)
        except MalformedEntry as error:
            return error
        except Exception as error:
            cause = unforeseen(error)
            if len(self._broken) < KEPT_OF_A_STEP:
                self._broken.append(refused_record(Input.LOG, record, cause))
            return MalformedEntry(cause)

    def _refusal(self, record: LogRecord) -> MalformedEntry | None:
        cause = self.refused.get(InputPlace(Input.LOG, record.offset))
        return None if cause is None else MalformedEntry(cause)
