"""One subscription of one table: what the gate lets through becomes batches with tokens.

    GateOpening --changes--> updates --query--> updates --outputs--> rows --> SubscriptionBatch

1. The gate says that everything below a frontier is complete, and which row versions are new (`gate`).
2. Each version becomes the updates that it means (`changes`).
3. The statement's query filters them and keeps its columns (`query`).
4. The outputs stage holds the updates until the frontier passes them and AS OF, and gives them the
   statement's form (`outputs`).
5. A batch has the rows, the frontier, and a token. A consumer stores the token with what it applied; a
   resume from it has every row of later batches, and none of this one.

A snapshot comes as one batch, or in chunks if the caller asks for them (`docs/subscribe.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.errors import HistoryLost, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_buckets import KeyBuckets
from tidegate.subscribe.changes.key_rows import KeyRows, MemoryKeyRows
from tidegate.subscribe.changes.key_schema import KeySchema
from tidegate.subscribe.changes.plain_changes import PlainChanges
from tidegate.subscribe.changes.reduced_keys import with_reduced_keys
from tidegate.subscribe.changes.row_updates import RowBefore, RowUpdates
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.columnar_rows import ColumnarRows, MakeTable, joined
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows
from tidegate.subscribe.gate.row_gate import GateOpening, GateStart
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.plain_path import PlainPath
from tidegate.subscribe.plan import SubscribePlan, require_bounds
from tidegate.subscribe.query.shown_bytes import PieceFull, ShownBytes
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of
from tidegate.subscribe.updates.process_share import HeldRows, ProcessShare
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues, Update

#: If a query makes more than this many bytes of the rows of one chunk, they come as several chunks.
_PIECE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SubscriptionBatch:
    """One batch of a subscription: everything below ``frontier`` that was not delivered before.

    Attributes:
        frontier: the frontier of the subscription after this batch.
        rows: the rows in the form of the statement. ``header`` of the subscription names their columns. They
            are a tuple, or ``ColumnarRows`` if columns were asked for.
        is_snapshot: whether the snapshot is complete with this batch.
        token: the token with which a subscription resumes after this batch; ``None`` if it can only begin
            again with a snapshot.
        is_last: whether UP TO is reached.
        is_partial: whether it is a chunk of a snapshot, and more batches of this snapshot follow. Such a
            chunk has the frontier AS OF and no token. Its rows are valid only once the batch with
            ``is_snapshot`` has come.
    """

    frontier: Frontier
    rows: Sequence[RowValues]
    is_snapshot: bool
    token: ResumeToken | None
    is_last: bool
    is_partial: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class SubscriptionSource:
    """The feed that a subscription reads.

    Attributes:
        name: the feed, for the fingerprint of tokens.
        tells_before: whether the feed's records have the row before each change.
        key_rows: the table of rows by key, if one is needed; by default one in memory.
        share: bounds the rows that the subscription keeps in memory, together with those of the share's other
            users. Rows that wait for a frontier count too.
        make_table: makes Arrow tables of rows, if columns are asked for. It is not called if the subscription
            has a query, or needs a table of rows by key.
    """

    name: str = ""
    tells_before: bool = False
    key_rows: KeyRows | None = None
    share: ProcessShare | None = None
    make_table: MakeTable | None = None


class Subscription:
    """The state of one subscription. After an error each call raises the same error.

    Attributes:
        copies: how many exact copies were left out of a snapshot in chunks, beside those that the gate drops.
    """

    __slots__ = (
        *(
            "_bounds",
            "_buckets",
            "_changes",
            "_chunks_apart",
            "_first_error",
            "_following",
            "_gives_chunks",
            "_key_rows",
            "_key_schema",
            "_made",
            "_offsets",
            "_outputs",
            "_plain",
            "_plan",
            "_resumable",
            "_selection",
        ),
        *("_snapshot_due", "_updates", "_waiting", "copies", "fingerprint"),
    )

    def __init__(
        self,
        plan: SubscribePlan,
        as_of: Timestamp,
        source: SubscriptionSource | None = None,
        *,
        start: GateStart | None = None,
        track_keys: bool = False,
        chunks: Spill | None = None,
        chunks_apart: bool = False,
    ) -> None:
        """Begin at ``as_of`` (`ReadableHistory.choose_as_of`); ``start`` is where its gate begins.

        With ``chunks`` the gate may give the rows of the snapshot in parts without an order. Then the plan
        has to be one that ``takes_parts``. These rows wait in the store of ``chunks``. If the plan
        ``comes_in_chunks`` with this AS OF, the snapshot is given in chunks, each of which takes about as
        much memory as an opening. Otherwise the snapshot is given whole. With ``chunks_apart`` the last chunk
        is a batch of its own too. Without it the rows of the last chunk are in the batch that completes the
        snapshot.
        """
        source = source or SubscriptionSource()
        before = row_before(plan, tells_before=source.tells_before)
        self.fingerprint = fingerprint(plan, source.name)
        self._plan = plan
        self._bounds = OutputBounds(as_of, plan.up_to, plan.snapshot)
        self._key_rows = source.key_rows or MemoryKeyRows(source.share)
        reduced = reduced_columns(plan)
        self._updates = RowUpdates(plan.relation, before, self._key_rows, as_of, reduced)
        self._key_schema = KeySchema(self._key_rows)
        self._selection = plan.selection(source.share)
        # The first rows of an order depend on the order of updates, which only `RowUpdates` fixes.
        ordered = self._selection is not None and self._selection.stateful
        fast = before is not RowBefore.NOWHERE and not ordered
        self._changes = PlainChanges(plan.relation, before, self._key_rows, reduced) if fast else None
        self._outputs = Outputs(plan.shape, self._bounds, plan.dialect, track_keys=track_keys)
        plain = not track_keys and is_plain(plan)
        self._waiting = held = HeldRows(source.share)
        self._plain = (
            PlainPath(plan, self._bounds, before, self._key_rows, held, reduced, source.make_table)
            if plain
            else None
        )
        self._resumable = not track_keys and not keeps_rows(plan)
        self._snapshot_due = plan.snapshot
        self._buckets = None if chunks is None else KeyBuckets(chunks.store, chunks.opening_bytes)
        self._gives_chunks = comes_in_chunks(plan, as_of, track_keys=track_keys)
        self._chunks_apart = chunks_apart
        self._following: Iterator[SubscriptionBatch] = iter(())
        self.copies = 0
        self._offsets: Mapping[FeedPartition, int] = (start or GateStart()).offsets
        self._first_error = FirstError()
        self._made = ShownBytes()

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row."""
        return self._outputs.header

    def opening(self) -> list[RowValues]:
        """Return the rows that come before all batches: a progress row at AS OF with PROGRESS, else none."""
        return self._outputs.opening()

    def advance(self, opening: GateOpening, offsets: Mapping[FeedPartition, int]) -> SubscriptionBatch | None:
        """Return the first batch that an opening of the gate gives.

        Returns ``None`` until the frontier is above AS OF or has reached UP TO, and again after the batch
        that reached UP TO. ``offsets`` are the offsets of the gate, and of its side markers, after the
        opening. A snapshot in chunks has several batches: call ``following`` for the next ones until it
        returns ``None``. Raises ``UnreadableRow`` also for rows whose JSON is nested too deeply to be put in
        order.
        """
        self.begin(opening, offsets)
        return self.following()

    def begin(self, opening: GateOpening, offsets: Mapping[FeedPartition, int]) -> None:
        """Take an opening as ``advance`` does, but make no batch yet: ``following`` returns all of its
        batches."""
        with self._first_error:
            self._following = self._batches(opening, offsets)

    def following(self) -> SubscriptionBatch | None:
        """Return the next batch of the last opening, such as a chunk of the snapshot; ``None`` after the
        last one.

        Raises as ``advance``.
        """
        with self._first_error:
            return next(self._following, None)

    def _batches(
        self, opening: GateOpening, offsets: Mapping[FeedPartition, int]
    ) -> Iterator[SubscriptionBatch]:
        if self._outputs.ended:
            return
        try:
            self._key_schema.require(opening)
            opening = with_reduced_keys(opening, self._plan.relation)
            if self._buckets is not None:
                yield from self._in_chunks(self._buckets, opening, offsets)
            elif (batch := self._batch(opening, offsets)) is not None:
                yield batch
        except RecursionError:
            raise _too_deep(opening.frontier, opening.rows) from None

    def _in_chunks(
        self, buckets: KeyBuckets, opening: GateOpening, offsets: Mapping[FeedPartition, int]
    ) -> Iterator[SubscriptionBatch]:
        """Take the snapshot's rows of an opening. Once the snapshot is complete, yield its chunks, then the
        batch.
        """
        as_of, decode = self._bounds.as_of, opening.decode
        early = opening.rows.split(as_of)
        buckets.add_rows(opening.rows.part(0, early))
        if opening.frontier <= as_of:
            return
        last: OpenedRows | None = None
        for newest in buckets.chunks():
            if not self._gives_chunks:
                self._hold(newest, opening)
            elif self._chunks_apart:
                yield from map(self._chunk, self._chunk_rows(newest, opening))
            else:
                if last is not None:
                    yield from map(self._chunk, self._chunk_rows(last, opening))
                last = newest
        rows: Sequence[RowValues] = []
        for some in () if last is None else self._chunk_rows(last, opening):
            if rows:
                yield self._chunk(rows)
            rows = some
        self.copies, self._buckets, last = buckets.copies, None, None
        later = opening.rows.part(early, len(opening.rows))
        batch = self._batch(GateOpening(opening.frontier, later, decode), offsets, rows)
        if batch is not None:
            yield batch

    def _chunk(self, rows: Sequence[RowValues]) -> SubscriptionBatch:
        """Make a chunk of the snapshot. From now on the caller counts the memory of its rows."""
        self._waiting.set(0)
        return SubscriptionBatch(
            Frontier(self._bounds.as_of), _kept(rows), False, None, False, is_partial=True
        )

    def _chunk_rows(self, newest: OpenedRows, opening: GateOpening) -> Iterator[Sequence[RowValues]]:
        """Yield the snapshot's rows of some keys, as of AS OF; nothing if all of them are deletions.

        They come in several parts if the query makes far longer rows out of the table's rows.
        """
        try:
            if self._plain is not None:
                rows = self._plain.snapshot_rows(newest, opening.decode)
                yield from [rows] if len(rows) else []
            else:
                yield from self._shown_parts(self._newest(newest, opening))
        except RecursionError:
            raise _too_deep(opening.frontier, newest) from None

    def _shown_parts(self, updates: Sequence[Update]) -> Iterator[list[RowValues]]:
        shown: Sequence[Update] | None = None
        with suppress(PieceFull):
            shown = self._selected(updates, ShownBytes(_PIECE_BYTES, cut=True))
        if shown is None:
            half = len(updates) // 2
            yield from self._shown_parts(updates[:half])
            yield from self._shown_parts(updates[half:])
            return
        self._show_later(shown)
        if rows := self._outputs.rows_at_as_of():
            yield rows

    def _hold(self, newest: OpenedRows, opening: GateOpening) -> None:
        """Have the outputs hold the newest rows of some keys at AS OF."""
        self._show_later(self._selected(self._newest(newest, opening), self._made))

    def _newest(self, newest: OpenedRows, opening: GateOpening) -> list[Update]:
        assert self._changes is not None
        rows = self._changes.begin(newest, opening.decode)
        return [Update(self._bounds.as_of, 1, row) for row in rows if row is not None]

    def _show_later(self, updates: Sequence[Update]) -> None:
        """Have the outputs hold updates until the frontier passes them."""
        self._outputs.add_updates(updates)
        if self._waiting.share is not None:
            self._waiting.add(sum(row_bytes(each.row) for each in updates))

    def _selected(self, updates: Sequence[Update], made: ShownBytes) -> Sequence[Update]:
        return updates if self._selection is None else self._selection.apply(updates, made)

    def _batch(
        self,
        opening: GateOpening,
        offsets: Mapping[FeedPartition, int],
        first: Sequence[RowValues] = (),
    ) -> SubscriptionBatch | None:
        """Return the batch of an opening; ``None`` until the frontier is above AS OF or has reached UP TO.

        ``first`` are the rows of the snapshot's last chunk. They come first in the batch.
        """
        shown = self._apply_opening(
            opening if self._bounds.up_to is None else _below(opening, self._bounds.up_to)
        )
        rows = self._outputs.advance(opening.frontier, joined(first, shown))
        ended = self._outputs.ended
        if not ended:  # at the end the gate may be beyond UP TO: rows from there were left out, not delivered
            self._offsets = offsets
        if opening.frontier <= self._bounds.as_of and not ended:
            return None
        self._made = ShownBytes()
        self._waiting.set(0)
        frontier = self._outputs.frontier
        begun = frontier > self._bounds.as_of  # false with an UP TO at AS OF: the snapshot was never given
        is_snapshot = self._snapshot_due and begun
        self._snapshot_due = self._snapshot_due and not begun
        resumable = self._resumable and begun
        token = ResumeToken(frontier, self.fingerprint, self._offsets) if resumable else None
        return SubscriptionBatch(frontier, _kept(rows), is_snapshot, token, ended)

    def _apply_opening(self, opening: GateOpening) -> Sequence[RowValues]:
        """Apply an opening. Return the rows that are shown without a wait in the outputs stage."""
        shown: Sequence[RowValues] = []
        if self._plain is not None:
            shown = self._plain.rows(opening)
        else:
            if self._changes is not None:
                updates = self._changes.updates(opening.rows, opening.decode)
            else:
                updates = self._updates.updates(opening.versions)
            self._show_later(self._selected(updates, self._made))
        # Up to AS OF the snapshot still waits or fills the table of rows by key. A frontier would say that
        # the table is complete.
        if opening.frontier > self._bounds.as_of:
            self._key_rows.close_at(opening.frontier)
        return shown


def _kept(rows: Sequence[RowValues]) -> Sequence[RowValues]:
    """Return rows as a batch keeps them."""
    return rows if isinstance(rows, ColumnarRows) else tuple(rows)


def _too_deep(frontier: Frontier, rows: OpenedRows) -> UnreadableRow:
    """Return the error for rows that can be decoded but not compared."""
    topics = ", ".join(sorted({place.topic for place in rows.places}))
    return UnreadableRow(
        f"JSON in a row of {topics} below {frontier} is nested too deeply for rows to be compared. "
        "Leave its column out of the statement, or raise sys.setrecursionlimit and resume from the token",
        topics,
    )


def _below(opening: GateOpening, up_to: Timestamp) -> GateOpening:
    """Return the part below UP TO. The table of rows by key stops at UP TO as well, so that a resume from UP
    TO finds it as of this time."""
    end = opening.rows.split(resume_as_of(Frontier(up_to)))
    return GateOpening(min(opening.frontier, Frontier(up_to)), opening.rows.part(0, end), opening.decode)


def row_before(plan: SubscribePlan, *, tells_before: bool) -> RowBefore:
    """Return where a plan's subscription finds the row before each change."""
    if tells_before:
        return RowBefore.RECORD
    key = {plan.shape.columns[at] for at in plan.shape.key}
    by_primary_key = plan.query is None and bool(key) and key == {*plan.relation.primary_key}
    if plan.shape.mode is OutputMode.UPSERT and by_primary_key:
        return RowBefore.NOWHERE
    return RowBefore.KEY_ROWS


def needs_key_rows(plan: SubscribePlan, *, tells_before: bool) -> bool:
    """Whether a plan's subscription cannot do without a table of rows by key."""
    return row_before(plan, tells_before=tells_before) is RowBefore.KEY_ROWS


def keeps_rows(plan: SubscribePlan) -> bool:
    """Whether a plan's query has to see all rows: with LIMIT or OFFSET these decide which rows are shown."""
    selection = plan.selection()
    return selection is not None and selection.stateful


def comes_in_chunks(plan: SubscribePlan, as_of: Timestamp, *, track_keys: bool = False) -> bool:
    """Whether the snapshot of a plan as of ``as_of`` can come in chunks.

    It can if each of its rows comes from one row of the table and shows that row's primary key (in KEY, if
    there is one), and if no rule needs all rows together: an order of all rows, LIMIT, OFFSET, or
    ``track_keys``. Nothing comes in chunks if UP TO is not above ``as_of``.
    """
    ordered = plan.shape.mode is OutputMode.ORDERED or plan.dialect is not Dialect.TIDEGATE
    if ordered or track_keys or keeps_rows(plan) or (plan.up_to is not None and plan.up_to <= as_of):
        return False
    selection = plan.selection()
    shown = plan.relation.columns if selection is None else selection.sources
    of_key = plan.shape.key or range(len(shown))
    primary_key = {*plan.relation.primary_key}
    return bool(primary_key) and primary_key <= {shown[at] for at in of_key}


def takes_parts(
    plan: SubscribePlan, as_of: Timestamp, *, tells_before: bool, track_keys: bool = False
) -> bool:
    """Whether the rows of a plan's snapshot may come in parts without an order.

    They may if the snapshot comes in chunks. They also may if the outputs stage adds up the updates of all
    newest rows before it shows any of them.
    """
    if comes_in_chunks(plan, as_of, track_keys=track_keys):
        return True
    if keeps_rows(plan) or (plan.up_to is not None and plan.up_to <= as_of):
        return False
    summed = row_before(plan, tells_before=tells_before) is not RowBefore.NOWHERE
    return summed and bool(plan.relation.primary_key) and (track_keys or not is_plain(plan))


def reduced_columns(plan: SubscribePlan) -> frozenset[str]:
    """Return the composite columns in a plan's KEY. The plan shows them in the form that deletions have.

    So the text of a key is the same in the rows that set it and in the row that deletes it.
    """
    composite = plan.relation.composite
    if not composite or not plan.shape.key:
        return frozenset()
    selection = plan.selection()
    shown = plan.relation.columns if selection is None else selection.sources
    return composite & {shown[at] for at in plan.shape.key}


def is_plain(plan: SubscribePlan) -> bool:
    """Whether each version of a row can be shown alone, without a look at other rows.

    It can if the statement has no query, and shows the table as diffs or by its primary key. In Materialize's
    dialect it cannot, because there rows have another order, and numbers have no scale.
    """
    if plan.query is not None or plan.dialect is not Dialect.TIDEGATE:
        return False
    if plan.shape.mode is OutputMode.DIFFS:
        return True
    key = {plan.shape.columns[at] for at in plan.shape.key}
    return bool(key) and key == {*plan.relation.primary_key}


def resumed(
    plan: SubscribePlan, token: ResumeToken, source: SubscriptionSource | None = None
) -> tuple[Subscription, GateStart]:
    """Return the subscription that goes on after a token's batch, and the start of its gate.

    Raises ``HistoryLost`` if the subscription needs rows by key, and they are not those at the token's
    frontier. Raises ``SubscribeStatementError`` if the token is beyond UP TO.
    """
    if plan.up_to is not None:
        require_bounds(str(token.as_of), str(plan.up_to), crossed=token.as_of > plan.up_to)
    source = source or SubscriptionSource()
    needs_rows = needs_key_rows(plan, tells_before=source.tells_before)
    stands_at = source.key_rows.frontier if source.key_rows is not None else None
    if needs_rows and stands_at != token.frontier:
        raise HistoryLost(
            f"The rows by key are {'gone' if stands_at is None else f'as of {stands_at}'}, the token is of "
            f"{token.frontier}: what later changes retract is not known. Begin again with a snapshot"
        )
    start = GateStart(token.as_of, token.offsets)
    plan = replace(plan, snapshot=False, as_of=token.as_of, at_least=False)
    return Subscription(plan, token.as_of, source, start=start), start
