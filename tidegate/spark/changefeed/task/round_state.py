"""A log partition's state in a round: steps T1 and T5 of docs/protocols/spark-rounds.md."""

from __future__ import annotations

import enum
import logging
import uuid
from collections.abc import Mapping
from typing import Final

from tidegate.errors import StateMismatch
from tidegate.processor.batch import StateTable
from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import RoundId
from tidegate.spark.changefeed.task.held_states import HeldState, HeldStates, keep, take_out
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.state_files import LoadedRows, StateFiles, apply_changes

_FEW_CHANGES: Final = 1_000
#: The number of deltas after which a base is written, so that few files are loaded and older ones can be
#: removed.
_MOST_DELTAS: Final = 50
#: The same number for a small state. To read a file costs about as much as to read ``_ROWS_OF_A_FILE`` rows.
#: So a base of a small state costs less than the deltas that it spares.
_LEAST_DELTAS: Final = 8
_ROWS_OF_A_FILE: Final = 100
#: Files of older states that a round removes at most. A round writes one, so their number falls.
_REMOVED_AT_ONCE: Final = 50

#: The states that this process keeps between rounds.
_held: HeldStates = {}

_log = logging.getLogger("tidegate.spark")


class Found(enum.Enum):
    """The place in which a round found the state of its partition. The values are labels of a metric.

    KEPT: in the Python worker. FOLLOWED: an older state was there, and the files written since then were
    read. LOADED: the whole chain of files was read. NEW: there was none yet.
    """

    KEPT = "kept"
    FOLLOWED = "followed"
    LOADED = "loaded"
    NEW = "new"


class RoundState:
    """The state of log partition ``partition`` in round ``round_id``, as of the file ``head``.

    Without a file the state is empty. ``found`` tells where it was, and ``files_read`` how many files were
    read. Raises ``StateError`` if the state cannot be read, and ``StoreAway`` if the file system does not
    answer.
    """

    def __init__(self, query: Query, round_id: RoundId, partition: int, head: str) -> None:
        self._query = query
        self._round_id = round_id
        self._partition = partition
        filesystem, root = opened(query.root, query.access)
        self._files = StateFiles(filesystem, root, partition)
        self.found, self.files_read = Found.NEW, 0
        self.held = self._load(head)
        self._remove_old()

    @property
    def processor(self) -> PartitionProcessor:
        """The processor that is made from the state's rows."""
        return self.held.processor

    def store(self, changes: Mapping[tuple[StateTable, bytes], bytes | None]) -> str:
        """Step T5: store what the round changed, keep the state for the next one; return the file's name."""
        state = self.held.state
        # another attempt may have detached other feeds
        name = f"{self._round_id.name}-{uuid.uuid4().hex[:8]}"
        size = state.size + apply_changes(state.rows, changes)
        changed = state.changed + len(changes)
        most_deltas = min(_MOST_DELTAS, max(_LEAST_DELTAS, len(state.rows) // _ROWS_OF_A_FILE))
        many = changed > max(_FEW_CHANGES, len(state.rows)) or state.deltas >= most_deltas
        if not state.base or (many and self._base_is_kept_ones()):
            self._files.write(name, "", state.rows)
            self.held.state = LoadedRows(state.rows, name, name, size=size)
            self.held.may_have_old = True
        else:
            self._files.write(name, state.head, changes)
            self.held.state = LoadedRows(state.rows, name, state.base, changed, state.deltas + 1, size)
        keep(_held, self._query.id, self._partition, self.held, self._query.held_bytes)
        return name

    def _load(self, head: str) -> HeldState:
        """Return the partition's state: a new one, the one that this process has kept, or one that is read
        from its files (step T1).
        """
        query = self._query
        held = take_out(_held, query.id, self._partition)
        if not head:
            processor = PartitionProcessor(self._partition, query.partitions, query.config)
            return HeldState(processor, LoadedRows({}), may_have_old=False)
        if held is not None and held.state.head == head:
            self.found = Found.KEPT
            return held
        known = LoadedRows({}) if held is None else held.state
        state = self._files.load(head, known)
        follows = state.rows is known.rows
        self.found = Found.FOLLOWED if follows else Found.LOADED
        self.files_read = state.deltas - known.deltas if follows else state.deltas + 1
        rows = ((table, key, value) for (table, key), value in state.rows.items())
        try:
            processor = PartitionProcessor.restore(self._partition, query.partitions, query.config, rows)
        except StateMismatch as mismatch:
            raise self._files.refused(head, mismatch) from None
        return HeldState(processor, state, may_have_old=True)

    def _remove_old(self) -> None:
        """Remove some files that no kept account reaches ("Old states" in docs/protocols/spark-rounds.md)."""
        held = self.held
        if not held.may_have_old or not self._base_is_kept_ones():
            return
        try:
            held.may_have_old = self._files.remove_before(held.state.base, _REMOVED_AT_ONCE)
        except OSError as error:
            held.may_have_old = False
            _log.warning(
                "partition %d: files of old states cannot be removed (%s). The query goes on. Let its user "
                "delete files in the checkpoint directory.",
                self._partition,
                error,
            )

    def _base_is_kept_ones(self) -> bool:
        """Return whether the states of both kept accounts begin at the base of this state.

        The ledger keeps the accounts of the two batches before.
        """
        older = self._round_id.batch - 2
        return older >= 0 and self.held.state.base < RoundId(older + 1, 0).name
