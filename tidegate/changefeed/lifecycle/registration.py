"""How a feed starts and ends: what the jobs agent does next about one feed, from what is durable.

There is no state here beside the durable facts: the definition, the drop, the stored state record, and the
acknowledgements of the log partitions. So a restarted agent goes on where the last one stopped, and late,
repeated and reordered acknowledgements change nothing that was decided.

1. ``Announce``: tell the partitions that have not answered to register the feed. From the first answer to
   the last activation the partitions are held, so whatever may keep the feed from starting is asked before,
   such as its schema registry: until then the feed is pending, and its state record may say what for.
2. ``Prepare``: all have. The start S is the feed's cursor; without one it is the highest MVCC timestamp that
   any of them had applied: whatever a partition emits from its position on, no version at or below S can be
   missing from another's past. What passed above a cursor is brought by scans (docs/catch-up.md). Create the
   output topics, register the markers' schemas, then store ``starting_state(...)``.
3. ``Announce`` the activation, with the S and the targets **of the stored record**, to the partitions that
   are not active. S is decided by the store, not by who computes it: a crash before the record was
   stored loses an S that nobody has heard of.
4. ``StoreState`` that the feed runs. From here on the frontier agent writes its progress.
5. A feed that is an initial scan only has succeeded when its progress has come to S: ``StoreState`` that.

A failure at any step is stored, and the partitions are told to forget the feed; so is a drop, and a success.
Between the two whoever may still write the feed's progress and markers is fenced (``needs_fence``).

A later epoch begins on an engine that the feed was moved to (docs/hand-over.md). ``TakeOver`` comes before
step 1. A failure of an earlier epoch that nobody has acted on ends the feed. Otherwise the partitions forget
what they may have of earlier epochs. The engine that the feed was moved away from has its partitions forget
it (``leave``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import (
    ENDED,
    FIRST_EPOCH,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
    FeedTarget,
    TableName,
)
from tidegate.changefeed.definition.internal_topics import internal_topic_fault
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import (
    NO_PARTITION,
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
)
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.output_topic import OutputTopics
from tidegate.errors import StateError, brief
from tidegate.hlc import Timestamp


@dataclass(frozen=True, slots=True)
class Announce:
    """Write this message to these log partitions' control partitions, and wait for their answers.

    Repeat it after a restart and when an answer takes too long: partitions answer every time.
    """

    message: ControlMessage
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Create the output topics, then store ``starting_state`` of this and the targets.

    ``tables`` are the definition's, in its order; ``positions`` are log offsets by log partition. A feed that
    was taken over has ``targets`` already: it keeps them, on the cluster with the id ``cluster``, and
    ``tables`` are none; ``topics`` is what is known of theirs. ``topics_anew``: it was not on that cluster
    before, so its topics have to be created.
    """

    start: Timestamp
    tables: tuple[KnownTable, ...]
    positions: Mapping[int, int]
    targets: tuple[FeedTarget, ...] = ()
    cluster: str | None = None
    topics_anew: bool = False
    topics: OutputTopics = ()


@dataclass(frozen=True, slots=True)
class StoreState:
    """Write this state record, and look again when it is durable."""

    record: StateRecord


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do until a new record or acknowledgement comes."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Fence whoever ran the feed, read all that it has left, store ``takeover(...)``, and look again."""


Step: TypeAlias = Announce | Prepare | StoreState | Settled | TakeOver
#: What each log partition has answered last about one epoch of a feed.
Answers: TypeAlias = Mapping[int, Ack]
_NONE: Final[Answers] = {}


class Acknowledgements:
    """What the log partitions have answered about one feed's epoch, folded in any order.

    An acknowledgement never takes back a later one: registered, active, failed, removed is the order, and
    removed with the reason of a failure after that. A
    partition that registers the feed twice has lost its state between: it reads the feed from the later
    position on, so that one counts. Where the start was fixed by the earlier one, the partition itself
    refuses a start below what it had applied (``tidegate.processor.feeds.feed_control``).
    """

    def __init__(self, epoch: FeedEpoch) -> None:
        self.epoch = epoch
        self._acks: dict[int, Ack] = {}

    def add(self, ack: Ack) -> None:
        """Take in one acknowledgement; those of other epochs are ignored."""
        known = self._acks.get(ack.partition)
        if ack.epoch == self.epoch and (known is None or _order(ack) > _order(known)):
            self._acks[ack.partition] = ack

    def by_partition(self) -> Mapping[int, Ack]:
        """The furthest acknowledgement of each log partition that has answered."""
        return self._acks


def _order(ack: Ack) -> tuple[int, int]:
    return _rank(ack), ack.position if isinstance(ack, Registered) else 0


def _rank(ack: Ack) -> int:
    match ack:
        case Registered():
            return 0
        case Active():
            return 1
        case Failed():
            return 2
        case Removed(reason=""):
            return 3
        case Removed():
            return 4


def former_answers(feed: FeedView, answers_of: Callable[[FeedEpoch], Answers]) -> Answers:
    """What partitions answered about the epoch before the definition's, for `next_step`.

    Failures of the epochs since the last one whose state is stored are among them: nobody has acted on these,
    for an epoch that never began has looked at nothing.
    """
    if feed.definition is None:
        return _NONE
    last = epoch_before(feed.definition)
    first = last if feed.state is None else min(last, feed.state.epoch)
    folded = dict(answers_of(last))
    for epoch in range(first, last):
        folded |= {ack.partition: ack for ack in answers_of(FeedEpoch(epoch)).values() if failure_of(ack)}
    return folded


def failure_of(ack: Ack) -> str:
    """Why the partition could not feed this any further; empty where it could."""
    return ack.reason if isinstance(ack, Failed | Removed) else ""


def next_step(feed: FeedView, acks: Answers, partition_count: int, former: Answers = _NONE) -> Step:
    """What to do next about a feed of this engine, given the acknowledgements of its definition's epoch.

    ``former`` are those of the epoch before (`former_answers`). Raises ``StateError`` for a stored state that
    no step can have left.
    """
    definition, stored = feed.definition, feed.current_state
    if definition is None:
        return Settled()
    if feed.drop is not None:
        return _ending(feed, definition, FeedState.DROPPED, acks, partition_count)
    if stored is not None and stored.state in ENDED:
        return _ending(feed, definition, stored.state, acks, partition_count)
    if _scan_was_all(feed, definition):
        return _ending(feed, definition, FeedState.SUCCEEDED, acks, partition_count)
    failed = [ack for _, ack in sorted(acks.items()) if isinstance(ack, Failed)]
    if failed:
        reason = _where(failed[0], failed[0].reason)
        return _ending(feed, definition, FeedState.FAILED, acks, partition_count, reason)
    if stored is None or stored.state is FeedState.PENDING:
        return _before_start(feed, definition, acks, partition_count, former)
    return _after_start(feed, definition, stored, acks, partition_count)


def leave(feed: FeedView, acks: Answers, partition_count: int) -> Announce | Settled:
    """What to do about a feed that is another engine's now.

    ``acks`` are of the epoch before its own, for what is told and answered about that one is the other's. Of
    a feed in its first epoch nobody has heard here. Before another one has taken it over its high-water may
    still be persisted here: no partition may leave rows out until then.
    """
    if feed.defined is None or feed.defined.epoch == FIRST_EPOCH:
        return Settled()
    if feed.current_takeover is None and feed.status not in ENDED:
        return Settled()
    return _forget(feed.defined.id, epoch_before(feed.defined), acks, range(partition_count))


def needs_fence(feed: FeedView, step: Step) -> bool:
    """Whether whoever writes the feed's progress and markers has to be fenced before ``step`` (step E2 of
    docs/delivery.md).

    Partitions forget a feed one after the other. Ranges that move from one that has forgotten it to one that
    has not do not bring what the feed lacks any more, so that checkpoints of the other may cover rows that
    nobody wrote: from the first ``Remove`` on no checkpoint may become a marker.
    """
    removes = isinstance(step, Announce) and isinstance(step.message, Remove)
    return removes and feed.status in ENDED and bool(feed.targets)


def epoch_before(definition: FeedDefinition) -> FeedEpoch:
    """The epoch that the definition's follows; 0 before the first."""
    return FeedEpoch(definition.epoch - 1)


def starting_state(
    definition: FeedDefinition,
    prepared: Prepare,
    targets: tuple[FeedTarget, ...],
    sink_cluster: str = "",
    topics: OutputTopics = (),
) -> StateRecord:
    """The record to store once the topics exist: it fixes the start for ever, and the cluster they are on."""
    return StateRecord(
        feed_id=definition.id,
        epoch=definition.epoch,
        state=FeedState.STARTING,
        start=prepared.start,
        targets=targets,
        positions=prepared.positions,
        sink_cluster=sink_cluster,
        topics=topics,
    )


def failed(definition: FeedDefinition, reason: str, topics: OutputTopics = ()) -> StateRecord:
    """The end of a feed that cannot be. ``topics`` is what was stored of those that it may have created."""
    return StateRecord(definition.id, definition.epoch, FeedState.FAILED, error=brief(reason), topics=topics)


def waiting(definition: FeedDefinition, reason: str, topics: OutputTopics = ()) -> StateRecord:
    """The state of a feed that cannot go on yet; empty ``reason``: nothing keeps it any more.

    ``topics`` is as that of ``failed``.
    """
    return StateRecord(definition.id, definition.epoch, FeedState.PENDING, error=brief(reason), topics=topics)


def _before_start(
    feed: FeedView, definition: FeedDefinition, acks: Answers, partition_count: int, former: Answers
) -> Step:
    if definition.epoch > FIRST_EPOCH:
        if feed.current_takeover is None:
            return TakeOver()
        if reason := _failed_before(feed, definition, former):
            return _ending(feed, definition, FeedState.FAILED, acks, partition_count, reason)
        step = _forget(definition.id, epoch_before(definition), former, range(partition_count))
        if isinstance(step, Announce):
            return step
    registered = {number: ack for number, ack in acks.items() if isinstance(ack, Registered)}
    missing = tuple(number for number in range(partition_count) if number not in registered)
    if missing:
        return Announce(Register(definition), missing)
    cursor = definition.options.cursor
    prepare = Prepare(
        start=max(ack.highest for ack in registered.values()) if cursor is None else cursor,
        tables=(),
        positions={number: registered[number].position for number in range(partition_count)},
        targets=feed.targets,
    )
    if prepare.targets:
        began, taken = feed.beginning, feed.current_takeover
        return replace(
            prepare,
            cluster=None if began is None else began.sink_cluster,
            topics_anew=taken is not None and taken.unprepared,
            topics=() if began is None else began.topics,
        )
    known = _known_ids(registered.values())
    refused = [ack.refused for _, ack in sorted(registered.items()) if ack.refused]
    fault = _table_fault(definition, known, refused[0] if refused else ())
    if fault:
        return StoreState(failed(definition, fault, feed.stored_topics))
    return replace(prepare, tables=tuple(KnownTable(table, min(known[table])) for table in definition.tables))


def _failed_before(feed: FeedView, definition: FeedDefinition, former: Answers) -> str:
    """Why an earlier epoch of a feed had failed, if it had: what it lacks the next one does not bring.

    The failure may be stored while the feed is moved, or known to its partitions alone.
    """
    stored = feed.state
    if stored is not None and stored.epoch < definition.epoch and stored.state is FeedState.FAILED:
        return stored.error or "it had failed"
    for _, ack in sorted(former.items()):
        if reason := failure_of(ack):
            return _where(ack, reason)
    return ""


def _where(ack: Ack, reason: str) -> str:
    """Who says so. Without a partition it is the writer of markers, or the jobs agent itself."""
    place = "the feed as a whole" if ack.partition == NO_PARTITION else f"log partition {ack.partition}"
    return f"{place}: {reason}"


def _known_ids(answers: Iterable[Registered]) -> dict[TableName, set[int]]:
    known: dict[TableName, set[int]] = {}
    for answer in answers:
        for table in answer.tables:
            known.setdefault(table.table, set()).add(table.table_id)
    return known


def _table_fault(
    definition: FeedDefinition, known: Mapping[TableName, set[int]], refused: Sequence[str]
) -> str:
    """Why the tables cannot be fed, or nothing. A descriptor that only some partitions have is enough.

    ``refused`` are the descriptors that a partition could not take: every partition is given the same ones.
    """
    unknown = [str(table) for table in definition.tables if table not in known]
    if unknown:
        return missing_tables(unknown, refused)
    ambiguous = [table for table in definition.tables if len(known[table]) > 1]
    if ambiguous:
        ids = ", ".join(map(str, sorted(known[ambiguous[0]])))
        return (
            f"the log partitions know {ambiguous[0]} by different ids ({ids}): it was dropped and made anew; "
            "create the feed again once every partition has passed that"
        )
    return ""


def missing_tables(names: Iterable[str], refused: Sequence[str]) -> str:
    """Why a feed cannot have tables of these names: a sentence without its full stop.

    A descriptor that cannot be read may be that of any table: those that were ``refused`` are told.
    """
    missing = ", ".join(names)
    if not refused:
        return (
            f"no log partition has a descriptor of {missing}: check the name; for a new table, "
            "create the feed again once the source has written its descriptor"
        )
    return (
        f"no log partition has a descriptor of {missing} that can be taken. Descriptors were refused: "
        f"{'; '.join(refused)}. If one of them is the table's, have the source write that version again as "
        "docs/log-contract.md#table-descriptors says, and create the feed again; otherwise check the name"
    )


def _after_start(
    feed: FeedView, definition: FeedDefinition, stored: StateRecord, acks: Answers, partition_count: int
) -> Step:
    if stored.start is None:
        raise StateError(
            f"the state of feed {stored.feed_id} is {stored.state.value}, but no start is stored with it: "
            "nothing is emitted for the feed; drop it and create it again"
        )
    inactive = tuple(number for number in range(partition_count) if not isinstance(acks.get(number), Active))
    if inactive:
        if fault := _internal_topic(definition, stored):
            return _ending(feed, definition, FeedState.FAILED, acks, partition_count, fault)
        return Announce(Activate(definition, stored.start, stored.targets), inactive)
    if stored.state is not FeedState.RUNNING:
        return StoreState(replace(stored, state=FeedState.RUNNING))
    return Settled()


def _internal_topic(definition: FeedDefinition, stored: StateRecord) -> str:
    """Why a stored state may not be acted on, or nothing: whoever writes to the jobs topic can store one that
    names any topic, and no engine has looked at it."""
    topics = [*(target.topic for target in stored.targets), definition.options.resolved_topic]
    faults = (internal_topic_fault(topic, "drop the feed") for topic in topics if topic)
    return next(filter(None, faults), "")


def _scan_was_all(feed: FeedView, definition: FeedDefinition) -> bool:
    """Whether the feed is a scan that is done. A partition that fails after that takes nothing from it."""
    begun = feed.current_state or feed.current_takeover
    if definition.options.initial_scan is not InitialScan.ONLY or begun is None or begun.start is None:
        return False
    return feed.high_water is not None and feed.high_water >= begun.start


def _ending(
    feed: FeedView,
    definition: FeedDefinition,
    state: FeedState,
    acks: Answers,
    partition_count: int,
    error: str = "",
) -> Step:
    """Store the end first, then have every partition that knows of the feed forget it.

    The record says where the feed began, in whatever epoch: it stands in the place of the one that says so
    where nobody has taken this epoch over. Once it had targets each partition may know of it, whatever is
    left of the answers; its topics are free for another feed when all have answered.
    """
    stored = feed.current_state
    known, began = stored or StateRecord(definition.id, definition.epoch, state), feed.beginning
    if known.start is None and began is not None:
        known = replace(
            known,
            start=began.start,
            targets=began.targets,
            sink_cluster=began.sink_cluster,
            topics=began.topics,
        )
    if known.state not in ENDED:
        known = replace(known, error="")  # what it waited for, or was held for, is no reason of its end
    targets = feed.targets or known.targets
    record = replace(known, state=state, targets=targets, error=brief(error or known.error))
    if record != stored:
        return StoreState(record)
    everybody = bool(record.targets) or definition.epoch > FIRST_EPOCH
    return _forget(
        definition.id, definition.epoch, acks, range(partition_count) if everybody else sorted(acks)
    )


def _forget(feed_id: FeedId, epoch: FeedEpoch, acks: Answers, asked: Iterable[int]) -> Announce | Settled:
    """Have these partitions forget the feed up to and with the epoch, unless they have answered that."""
    holding = tuple(number for number in asked if not isinstance(acks.get(number), Removed))
    return Announce(Remove(feed_id, epoch), holding) if holding else Settled()
