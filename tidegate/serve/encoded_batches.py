"""Each batch encoded once for each form, however many clients get it.

Streams of one table may give the same batch object to all of their clients. Its encoded form is kept while it
is young: clients that keep up find it there. For a slow client it is encoded again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Final
from weakref import ref

from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.row_size import values_bytes
from tidegate.subscribe.updates.update import RowValues

#: Rows that are encoded in one go, and about how many bytes of memory they take: other clients wait for a few
#: milliseconds meanwhile. A single row may take more.
CHUNK_ROWS: Final = 256
CHUNK_BYTES: Final = 1024 * 1024
#: The rows of a batch that is kept take up to ten times the memory of their bytes.
_KEPT_BYTES: Final = 4 * 1024 * 1024
_ENTRY_BYTES: Final = 1024

#: Rows as the bytes of one form.
EncodeRows = Callable[[Sequence[RowValues]], bytes]


def chunk_of(rows: Sequence[RowValues], start: int, most: int = CHUNK_ROWS) -> Sequence[RowValues]:
    """Return the rows from ``start`` on that are encoded in one go: at least one, if there is one."""
    chunk = rows[start : start + min(most, CHUNK_ROWS)]
    if values_bytes(chain.from_iterable(chunk)) <= CHUNK_BYTES:
        return chunk
    taken = 0
    for at, row in enumerate(chunk):
        taken += values_bytes(row)
        if taken > CHUNK_BYTES and at:
            return chunk[:at]
    return chunk


class EncodedBatches:
    """The chunks of recent batches, by batch and form.

    It keeps no batch: a client that takes one chunk of a long batch and leaves would leave the batch here.
    """

    __slots__ = ("_bytes", "_chunks", "_gone", "_kept_bytes", "_known", "encoded")

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._chunks: OrderedDict[tuple[int, Hashable, int], tuple[int, bytes]] = OrderedDict()
        #: The batches with chunks here, by their ids; each with the places of its chunks.
        self._known: dict[int, tuple[ref[SubscriptionBatch], set[tuple[int, Hashable, int]]]] = {}
        #: The ids of batches that nobody has any more. Any thread may be the last to let go of one.
        self._gone: deque[int] = deque()
        self._bytes = 0
        self._kept_bytes = kept_bytes
        #: The number of chunks that were encoded.
        self.encoded = 0

    def chunks(
        self, batch: SubscriptionBatch, form: Hashable, encode: EncodeRows
    ) -> Iterator[tuple[int, bytes]]:
        """Yield a batch's rows in a form, chunk by chunk: the number of a chunk's rows, and its bytes.

        ``form`` is equal where ``encode`` gives the same bytes.
        """
        start = 0
        while start < len(batch.rows):
            count, chunk = self.piece(batch, form, start, encode)
            yield count, chunk
            start += count

    def piece(
        self, batch: SubscriptionBatch, form: Hashable, start: int, encode: EncodeRows
    ) -> tuple[int, bytes]:
        """Return how many rows from ``start`` on a piece of a batch has, and its bytes."""
        self._forget_gone()
        place = (id(batch), form, start)
        known = self._chunks.get(place)
        if known is not None:
            return known
        rows = chunk_of(batch.rows, start)
        chunk = encode(rows)
        self.encoded += 1
        self._keep(batch, place, (len(rows), chunk))
        while self._bytes > self._kept_bytes:
            _, (_, dropped) = self._chunks.popitem(last=False)
            self._bytes -= len(dropped) + _ENTRY_BYTES
        return len(rows), chunk

    def _keep(
        self, batch: SubscriptionBatch, place: tuple[int, Hashable, int], piece: tuple[int, bytes]
    ) -> None:
        number = id(batch)
        if number not in self._known:
            self._known[number] = (ref(batch, lambda _: self._gone.append(number)), set())
        self._known[number][1].add(place)
        self._chunks[place] = piece
        self._bytes += len(piece[1]) + _ENTRY_BYTES

    def _forget_gone(self) -> None:
        """Drop the chunks of batches that are gone, before another batch with such an id is looked for."""
        while self._gone:
            _, places = self._known.pop(self._gone.popleft())
            for place in places:
                if (dropped := self._chunks.pop(place, None)) is not None:
                    self._bytes -= len(dropped[1]) + _ENTRY_BYTES
