"""The rows of a table in memory as of one moment, for subscribers that go through them at their own pace.

Rows that the table still has take no memory of their own. Rows that the table has replaced or deleted since
that moment are kept only for these subscribers. They count as memory of subscriptions (`KeptMemory`). If
there is no room for them, the moment is *lost*: its rows are freed, and its subscribers get an error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final
from weakref import ref

from tidegate.errors import LimitExceeded
from tidegate.serve.held_batches import COUNTED_BYTES
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.row_pieces import RowPage, RowPiece
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues

#: So many rows are freed together, once all subscribers of their moment have taken them.
_PAGE_ROWS: Final = 10_000
#: The bytes that a list takes for a row.
_PLACE_BYTES: Final = 8


class TableMoment:
    """Counts the memory that the rows of one moment take beside the table's. Any thread may use it."""

    __slots__ = (
        *("__weakref__", "_gone", "_kept_memory", "_lock", "_lost", "_pages"),
        *("_replaced_bytes", "_row_count", "_row_count_now", "_rows_bytes"),
    )

    def __init__(self, rows_bytes: int) -> None:
        """``rows_bytes`` is about how many bytes its rows take."""
        self._rows_bytes = rows_bytes
        self._row_count = self._row_count_now = 0
        self._replaced_bytes = 0
        self._pages: list[ref[RowPage]] = []
        #: For each page that nobody needs any more, its number of rows.
        self._gone: deque[int] = deque()
        self._kept_memory: KeptMemory | None = None
        self._lost = ""
        self._lock = threading.Lock()

    def begin(self, rows: Iterable[RowValues]) -> MomentRows:
        """Take its rows, and return them for the first subscriber. Call it once."""
        rows, pages = iter(rows), deque[RowPage]()
        while some := list(islice(rows, _PAGE_ROWS)):
            pages.append(_MomentPage(self, some))
            self._pages.append(self._watched(pages[-1]))
            self._row_count += len(some)
        self._row_count_now = self._row_count
        return MomentRows(self, pages)

    def again(self) -> MomentRows | None:
        """Return its rows for one subscriber more; ``None`` if some of them were freed already."""
        pages = self._held_pages()
        return MomentRows(self, deque(pages)) if len(pages) == len(self._pages) else None

    def count_in(self, kept_memory: KeptMemory) -> None:
        """Count in ``kept_memory`` what the moment takes, now and later.

        Raises ``LimitExceeded`` if there is no room.
        """
        with self._lock:
            self._kept_memory = kept_memory
            self._hold()
        self.require()

    def replaced(self, count: int) -> None:
        """Say that the table has dropped rows of so many bytes. They may be among the rows of the moment."""
        with self._lock:
            self._replaced_bytes += count
            self._hold()

    def recount(self) -> None:
        """Count again, without the rows that nobody needs any more."""
        with self._lock:
            self._hold()

    def require(self) -> None:
        """Raise ``LimitExceeded`` if this moment is lost."""
        if self._lost:
            raise LimitExceeded(self._lost)

    def _watched(self, page: RowPage) -> ref[RowPage]:
        gone, count = self._gone, page.count  # without the moment, which would keep itself alive
        return ref(page, lambda _: gone.append(count))

    def _held_pages(self) -> list[RowPage]:
        return [page for watched in self._pages if (page := watched()) is not None]

    def _hold(self) -> None:
        while self._gone:
            self._row_count_now -= self._gone.popleft()
        if self._kept_memory is None or self._lost:
            return
        all_bytes = self._rows_bytes * self._row_count_now // max(self._row_count, 1)
        taken = min(self._replaced_bytes, all_bytes) + _PLACE_BYTES * self._row_count_now
        try:
            self._kept_memory.hold(self, taken if taken >= COUNTED_BYTES else 0)
        except LimitExceeded as error:
            self._lost = str(error)  # before the rows go: who takes rows looks here afterwards
            for page in self._held_pages():
                page.rows.clear()
            self._kept_memory.hold(self, 0)


class _MomentPage(RowPage):
    """Rows of a moment, which may be lost."""

    __slots__ = ("_moment",)

    def __init__(self, moment: TableMoment, rows: list[RowValues]) -> None:
        super().__init__(rows)
        self._moment = moment

    def require(self) -> None:
        """Raise ``LimitExceeded`` if the moment is lost."""
        self._moment.require()


class MomentRows:
    """The rows of a moment for one subscriber.

    They can be iterated over any number of times, and then be taken once by ``next``. Iterating raises
    ``LimitExceeded`` if the moment is lost.
    """

    __slots__ = ("_at", "_ended", "_pages", "moment")

    def __init__(self, moment: TableMoment, pages: deque[RowPage]) -> None:
        self.moment = moment
        self._pages = pages
        #: The number of rows of the first page that were taken.
        self._at = 0
        self._ended = False

    def __iter__(self) -> Iterator[RowValues]:
        for page in list(self._pages):
            yield from RowPiece(page, 0, page.count, is_last=False).rows()

    def next(self, most_rows: int, _: int) -> RowPiece | None:
        """Take the next piece, however many bytes it has; ``None`` after the last one.

        A page that was taken as a whole is dropped here. It is freed when no subscriber needs it any more.
        """
        if self._ended:
            return None
        self.moment.recount()
        if not self._pages:
            self._ended = True
            return RowPiece(RowPage([]), 0, 0, is_last=True)
        page, begin = self._pages[0], self._at
        self._at = end = min(begin + most_rows, page.count)
        if end == page.count:
            self._pages.popleft()
            self._at = 0
        self._ended = not self._pages
        return RowPiece(page, begin, end, self._ended)

    def close(self) -> None:
        """Drop the rows."""
        self._ended = True
        self._pages.clear()
        self.moment.recount()


def held_rows(rows: list[RowValues]) -> MomentRows:
    """Return rows that no table has. All of them count as memory of their subscriber."""
    rows_bytes = sum(map(row_bytes, rows))
    moment = TableMoment(rows_bytes)
    moment.replaced(rows_bytes)
    return moment.begin(rows)
