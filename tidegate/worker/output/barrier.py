"""Counts what becomes of the rows of one batch: the boundary between a commit loop and a sink of any kind.

A row writer (``tidegate.worker.output.row_writer``) tells the barrier of each row that is acknowledged or
refused. The outlets ask the barrier whether the batch may be committed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias

from tidegate.delivery.refused_rows import DOUBTED_FOR_S, PRODUCERS, refused_at_last
from tidegate.errors import RowDoubted, RowRefused

#: A barrier, and the refusal of one of its rows; ``None`` if all of its rows were acknowledged.
Unconfirmed: TypeAlias = "tuple[Barrier, RowRefused | None]"
Confirm: TypeAlias = Callable[[Unconfirmed], None]


class Barrier:
    """Counts the acknowledgements of one feed's rows of one batch; the last one completes ``acknowledged``.

    A row has one of three ends: it is acknowledged, refused, or given up although it is not at fault. The
    writer calls ``row_acknowledged`` or ``row_refused`` once for each row, but calls nothing for a row that
    it gives up. A row that was given up is not counted, and the writer comes to its end. The writer comes to
    its end also after ``row_refused`` with a ``RowDoubted``. A ``RowDoubted`` counts as a refusal only once
    several writers had one for rows of this batch (step R4b of docs/protocols/refused-rows.md).

    The threads of row writers call ``row_acknowledged``, ``row_refused`` and ``confirm``. The loop or the
    thread of the steps calls the other methods.

    An acknowledgement or a refusal does not say which sink gave it. Where an address may later mean another
    sink, both count only once the writer has ruled that out (``require_confirmation`` and ``confirm``).
    """

    __slots__ = (
        "_calls",
        "_confirm",
        "_doubted_in",
        "_doubted_since",
        "_doubts",
        "_left",
        "_lock",
        "_loop",
        "_turn",
        "_unconfirmed",
        "acknowledged",
        "counts",
        "refusal",
    )

    def __init__(self, rows: int, loop: asyncio.AbstractEventLoop) -> None:
        self.acknowledged: asyncio.Future[None] = loop.create_future()
        #: Whether every row is acknowledged: ``acknowledged`` is done, or the loop has still to note it.
        self.counts = not rows
        #: Why one of the rows will never be acknowledged, so that the feed fails (step R1).
        self.refusal: RowRefused | None = None
        self._left = rows
        self._loop = loop
        self._confirm: Confirm | None = None
        self._unconfirmed = False  # whether a refusal waits for ``confirm``
        self._doubts = 0  # turns in which a row was doubted
        self._doubted_in = -1  # the last turn in which a row was doubted
        self._doubted_since = 0.0  # the loop's time at the first one
        self._calls: list[Callable[[], None]] = []
        self._turn = 0  # how often it began again; the loop ignores news of an earlier turn
        self._lock = threading.Lock()  # the writer's thread counts rows, and so does the caller of ``forget``
        if not rows:
            self.acknowledged.set_result(None)

    # ---- what commit loops and outlets call

    @property
    def left(self) -> int:
        """The number of rows that are not acknowledged yet."""
        return self._left

    def when_acknowledged(self, call: Callable[[], None]) -> None:
        """Have the loop call ``call`` at the last acknowledgement, and once more for each ``begin_again``."""
        self._calls.append(call)
        if self.acknowledged.done():
            self._loop.call_soon(call)

    def forget(self, rows: int) -> None:
        """Count some rows as acknowledged: no writer will ever be given them. Any thread may call this."""
        with self._lock:
            self._left -= rows
            last = rows > 0 and not self._left
        if last:
            self._finish()

    def begin_again(self, rows: int) -> None:
        """Count all ``rows`` once more, as if none were acknowledged: another writer is given them (step R6).

        Their former writer is over, so it tells of none of them any more. The caller makes sure that no batch
        was committed because of this barrier: batches are committed in order, and an earlier one, or this one
        itself, still has unacknowledged rows.
        """
        with self._lock:
            self._left = rows
            self._turn += 1
            self.counts = False
            if self.acknowledged.done():
                self.acknowledged = self._loop.create_future()
        self._confirm = None
        self._unconfirmed = False

    # ---- what row writers call

    def row_acknowledged(self) -> None:
        """Count one row that the sink has acknowledged."""
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._finish()

    def row_refused(self, refusal: RowRefused) -> None:
        """Note that the sink refuses a row. Only the first refusal is kept.

        The row counts as not acknowledged, so its batch is never committed with it. After a ``RowDoubted``
        the writer has to come to its end, so that another one writes the row again.
        """
        if self._confirm is None:
            self._refuse(refusal)
        elif not self._unconfirmed:
            self._unconfirmed = True
            self._confirm((self, refusal))

    def require_confirmation(self, confirm: Confirm) -> None:
        """Let the last acknowledgement, or a refusal, count only once the writer has confirmed it.

        When one of these comes, ``confirm`` is called, and the writer answers by ``Barrier.confirm``. The
        writer calls this method before it takes rows.
        """
        self._confirm = confirm

    def confirm(self, refusal: RowRefused | None) -> None:
        """Let the ``refusal`` count. If it is ``None``, let the acknowledgements count.

        The writer calls this once it knows that no other sink was at the address since the first row went
        out.
        """
        if refusal is not None:
            self._refuse(refusal)
        else:
            self._count()

    # ---- inside

    def _refuse(self, refusal: RowRefused) -> None:
        if isinstance(refusal, RowDoubted):
            if not self._is_doubted_enough():
                return
            refusal = refused_at_last(str(refusal))
        if self.refusal is None:
            self.refusal = refusal

    def _is_doubted_enough(self) -> bool:
        """Count the present writer among those that have doubted a row; return whether a refusal follows."""
        now = self._loop.time()
        with self._lock:
            if not self._doubts:
                self._doubted_since = now
            self._doubts += self._doubted_in != self._turn
            self._doubted_in = self._turn
            return self._doubts >= PRODUCERS and now - self._doubted_since >= DOUBTED_FOR_S

    def _finish(self) -> None:
        if self._confirm is None:
            self._count()
        else:
            self._confirm((self, None))

    def _count(self) -> None:
        self.counts = True
        self._loop.call_soon_threadsafe(self._open, self._turn)

    def _open(self, turn: int) -> None:
        with self._lock:
            if turn != self._turn or self.acknowledged.done():
                return
            self.acknowledged.set_result(None)
        for call in self._calls:
            call()
