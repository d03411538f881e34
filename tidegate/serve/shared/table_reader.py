"""Reads one table in a thread: keeps its rows by key, and gives out its changes.

A snapshot (`TableReader.snapshot`) always has the rows as of one frontier, since an opening of the gate is
applied under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tidegate.client.subscribe.collector_pace import collector_slowed
from tidegate.hlc import ZERO
from tidegate.serve.shared.table_rows import TableRows
from tidegate.subscribe.changes.table_changes import TableChanges, TableFollower
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import GateOpening
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import RowValues

#: The time for which a poll waits. After ``stop`` a reader may take this time to end.
_POLL_S: Final = 0.2
#: The kind of output in the reader's figures. Each subscriber has a kind of output of its own.
_OUTPUT: Final = "shared"
#: While the gate does not open, figures are made after every so many polls.
_FIGURES_POLLS: Final = 5


class TableSource(Protocol):
    """A gate, and the records that fill it: `FeedGate`, or a test's own."""

    def open(self) -> GateOpening | None:
        """Return the rows that have become complete since the last call; ``None`` if nothing has."""

    def is_same(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds; return whether Kafka has confirmed that the topics are those of
        the beginning.
        """

    def read(self, timeout_s: float) -> None:
        """Take the records that have come; wait at most ``timeout_s`` seconds for the first."""

    def has_ended(self, *, is_begun: bool) -> bool:
        """Return whether nothing follows. ``is_begun`` says whether the first snapshot is complete."""

    def offsets(self) -> dict[FeedPartition, int]:
        """Return the offset at which a resume reads on, for each partition."""

    def figures(self, output: str) -> SubscriptionFigures:
        """Return its figures as of now."""

    def close(self) -> None:
        """Close the connections to Kafka."""


class RowsGone(Exception):
    """The reader has ended, so its rows are not as of one frontier. ``SharedTable`` handles this."""


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The rows of a table as of a frontier, and the offsets at which reading goes on after it.

    ``rows`` can be gone through once, in any thread.
    """

    row_count: int
    rows: Iterable[RowValues]
    frontier: Frontier
    offsets: Mapping[FeedPartition, int]


class TableReader:
    """Reads a table until it is stopped or an error ends it.

    ``publish`` gets the changes one after the other, ``failed`` gets the error. ``finished`` is called if
    nothing follows because the feed has succeeded. Then the rows stay until the reader is stopped. All three
    are called in the reader's thread.
    """

    def __init__(
        self,
        source: TableSource,
        follower: TableFollower,
        rows: TableRows,
        publish: Callable[[TableChanges], object],
        failed: Callable[[BaseException], object],
        finished: Callable[[], object],
    ) -> None:
        self._source = source
        self._follower = follower
        self._rows = rows
        self._publish = publish
        self._failed = failed
        self._finished = finished
        self._lock = threading.Lock()
        #: Whether the rows are as of the follower's frontier.
        self._whole = True
        self._stop = threading.Event()
        self._offsets: Mapping[FeedPartition, int] = {}
        #: The figures of the reading, as of the last opening or second.
        self.figures: SubscriptionFigures | None = None

    def run(self) -> None:
        """Read to the end. Call it in a thread of its own."""
        try:
            self._read()
        except BaseException as error:  # of any kind: those who wait for changes have to know
            self._failed(error)
        finally:
            try:
                self._source.close()
            finally:
                with self._lock:
                    self._whole = False
                    self._rows.close()

    def stop(self) -> None:
        """Make ``run`` return soon."""
        self._stop.set()

    def snapshot(self) -> TableSnapshot:
        """Return the rows as of the last opening. There has to be an opening already.

        Raises ``RowsGone`` once the reader has ended.
        """
        with self._lock:
            if not self._whole:
                raise RowsGone
            return TableSnapshot(*self._rows.frozen(), self._follower.frontier, self._offsets)

    def _read(self) -> None:
        idle = 0
        while not self._stop.is_set():
            with collector_slowed():
                opening = self._source.open()
            if opening is None:
                self._source.read(_POLL_S)
                if self._source.has_ended(is_begun=self._follower.frontier > ZERO):
                    self._finished()
                    self._stop.wait()
                    return
                idle += 1
                if idle % _FIGURES_POLLS == 0:
                    self.figures = self._source.figures(_OUTPUT)
                continue
            if not self._confirmed():
                return
            with self._lock, collector_slowed():
                self._whole = False  # stays so if an error leaves an opening half applied
                changes = self._follower.follow(opening, self._source.offsets())
                self._whole = True
                if changes is not None:
                    self._offsets = changes.offsets
            if changes is not None:
                self._publish(changes)
            self.figures = self._source.figures(_OUTPUT)

    def _confirmed(self) -> bool:
        """Wait until Kafka confirms that the topics are those of the beginning.

        Returns ``False`` if the reader is stopped before.
        """
        while not self._stop.is_set():
            if self._source.is_same(_POLL_S):
                return True
        return False
