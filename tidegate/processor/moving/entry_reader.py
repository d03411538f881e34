"""Records of the log to entries, as a partition takes them."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import MalformedEntry
from tidegate.processor.batch import LogRecord
from tidegate.processor.breaking import refused_record
from tidegate.processor.containment import Input, InputPlace, Refused, unforeseen
from tidegate.processor.refused import KEPT_OF_A_STEP, RefusedRecord
from tidegate.raftlog.decode import decode_batch, decode_entry
from tidegate.raftlog.entry import Entry
from tidegate.ranges.backlog import RawEntry


class EntryReader:
    """Decodes records; one that is ``refused`` stands as malformed, whatever it says."""

    def __init__(self) -> None:
        self.refused: Refused = {}
        self._broken: list[RefusedRecord] = []

    def read(self, records: Sequence[LogRecord]) -> list[Entry | MalformedEntry]:
        """The entry of each record, or why there is none."""
        try:
            entries = decode_batch((record.key, record.value) for record in records)
        except Exception:
            entries = [self._read(record) for record in records]
        if self.refused:
            return [self._refusal(record) or entry for record, entry in zip(records, entries, strict=True)]
        return entries

    def read_again(self, raw: RawEntry) -> Entry:
        """The entry of a record that was put off. Raises ``MalformedEntry``."""
        refusal = self._refusal(raw)
        if refusal is not None:
            raise refusal
        return decode_entry(raw.key, raw.value)

    def take_broken(self) -> list[RefusedRecord]:
        """Records that met an exception nobody foresaw since the last call; some, where there are many."""
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
