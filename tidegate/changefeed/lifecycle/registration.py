"""Decides how a feed starts and ends: the next step of the jobs agent about it, from durable records alone.

There is no state here beside the durable facts: the definition, the drop, the stored state record, and the
acknowledgements of the log partitions. So a restarted agent goes on where the last one stopped. Late,
repeated and reordered acknowledgements change no decision.

1. ``Announce``: tell the partitions that have not answered to register the feed. From the first answer to the
   last activation the partitions are held. So everything that may keep the feed from starting, such as its
   schema registry, is asked before. Until then the feed is pending, and its state record may say what it
   waits for.
2. ``Prepare``: all partitions have answered. The start S is the feed's cursor. Without one it is the highest
   MVCC timestamp that any partition had applied at its position. So no partition has passed a version above S
   before its position. Versions above a cursor that partitions have passed come by scans
   (docs/protocols/catch-up.md).
   Create the output topics, register the markers' schemas, then store ``starting_state(...)``.
3. ``Announce`` the activation, with the S and the targets **of the stored record**, to the partitions that
   are not active. S is fixed once it is stored: a crash before that loses an S that nobody has been told.
4. ``StoreState``: store that the feed runs. From here on the frontier agent writes its progress.
5. A feed that is an initial scan only has succeeded once its progress has reached S. ``StoreState``: store
   that.

A failure at any step is stored, and then the partitions are told to forget the feed. A drop and a success end
it in the same way. In between, whoever may still write the feed's progress and markers is fenced
(``needs_fence``).

A later epoch begins on an engine that the feed was moved to (docs/protocols/hand-over.md). ``TakeOver`` comes
before step 1. A failure of an earlier epoch that nobody has acted on ends the feed. Otherwise the partitions
forget what they may have of earlier epochs. The engine that the feed was moved away from has its partitions
forget it (``leave``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import (
    ENDED,
    FIRST_EPOCH,
    Engine,
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
from tidegate.changefeed.lifecycle.job_records import StateRecord, TakeoverRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.output_topic import OutputTopics
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.errors import StateError, brief
from tidegate.hlc import Timestamp


@dataclass(frozen=True, slots=True)
class Announce:
    """The step to write this message to the control partitions of these log partitions, and to wait for
    their answers.

    It is repeated after a restart, and when an answer takes too long: partitions answer every time.
    """

    message: ControlMessage
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prepare:
    """The step to create the output topics, and then to store ``starting_state(...)``.

    ``tables`` are the definition's, in its order; ``positions`` are log offsets by log partition. A feed that
    was taken over has ``targets`` already, and no ``tables``: it keeps its targets, on the cluster with the
    id ``cluster``, and ``topics`` is what is known of their topics. ``topics_anew`` says that the feed was
    not on that cluster before, so its topics have to be created. ``is_from_now`` says that the feed may start
    above ``start``, which is the timestamp of the newest version that partitions have applied.
    """

    start: Timestamp
    tables: tuple[KnownTable, ...]
    positions: Mapping[int, int]
    targets: tuple[FeedTarget, ...] = ()
    cluster: str | None = None
    topics_anew: bool = False
    topics: OutputTopics = ()
    is_from_now: bool = False


@dataclass(frozen=True, slots=True)
class StoreState:
    """The step to write this state record, and to ask for the next step once the record is durable."""

    record: StateRecord


@dataclass(frozen=True, slots=True)
class Settled:
    """The step to do nothing until a new record or acknowledgement comes."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The step to fence whoever ran the feed, to read its last records, to store ``takeover(...)``, and to
    ask for the next step.
    """


Step: TypeAlias = Announce | Prepare | StoreState | Settled | TakeOver
#: The last answer of each log partition about one epoch of a feed.
Answers: TypeAlias = Mapping[int, Ack]
_NONE: Final[Answers] = {}


class Acknowledgements:
    """The answers of the log partitions about one feed's epoch, taken in any order.

    An acknowledgement never replaces a later one. Their order is registered, active, failed, removed, and
    then removed with the reason of a failure. A partition that registers the feed twice has lost its state in
    between. It reads the feed from the later position on, so the later position counts. If the start was
    fixed with the earlier position, the partition itself refuses a start below what it had applied
    (``tidegate.processor.feeds.feed_control``).
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
        """Return the furthest acknowledgement of each log partition that has answered."""
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


def former_answers(feed: FeedView, answers: Mapping[FeedEpoch, Answers]) -> Answers:
    """Return what partitions answered about the epoch before the definition's, for `next_step`.

    Failures in all epochs since the last one with a stored state are among these answers. Nobody has acted on
    these failures yet, since an epoch that never began has not looked at them. ``answers`` has the epochs
    with answers. A definition may name an epoch far above these, so not every epoch between is looked for.
    """
    if feed.definition is None:
        return _NONE
    last = epoch_before(feed.definition)
    first = last if feed.state is None else min(last, feed.state.epoch)
    folded = dict(answers.get(last, _NONE))
    for epoch in sorted(epoch for epoch in answers if first <= epoch < last):
        folded |= {ack.partition: ack for ack in answers[epoch].values() if failure_of(ack)}
    return folded


def failure_of(ack: Ack) -> str:
    """Return why the partition could not run the feed any further; empty if it could."""
    return ack.reason if isinstance(ack, Failed | Removed) else ""


def is_forgotten(acks: Answers, partition_count: int) -> bool:
    """Return whether every log partition has answered that it forgot the feed (step E4)."""
    return all(isinstance(acks.get(number), Removed) for number in range(partition_count))


def due_takeover(feed: FeedView, definition: FeedDefinition) -> TakeoverRecord | None:
    """Return the takeover to be stored for ``definition``: step H3 of docs/protocols/hand-over.md, N3 of
    docs/protocols/accept-cluster.md.

    ``feed`` is read after the process that ran the feed was fenced. Returns ``None`` if the feed was moved
    again meanwhile, or is taken over already.
    """
    if feed.defined != definition or feed.current_takeover is not None:
        return None
    return takeover(definition, feed.state, feed.progress, feed.takeover)


def step_on(
    engine: Engine, feed: FeedView, answers: Mapping[FeedEpoch, Answers], partition_count: int
) -> Step:
    """Return what ``engine`` does next about a feed, which may belong to another engine by now.

    ``answers`` has what partitions answered, for each epoch of the feed with answers. Raises as ``next_step``
    does.
    """
    if feed.definition is None:
        return Settled()
    if not feed.runs_on(engine):
        return leave(feed, answers.get(epoch_before(feed.definition), _NONE), partition_count)
    former = former_answers(feed, answers)
    return next_step(feed, answers.get(feed.definition.epoch, _NONE), partition_count, former)


def next_step(feed: FeedView, acks: Answers, partition_count: int, former: Answers = _NONE) -> Step:
    """Return what to do next about a feed of this engine, given the acknowledgements of its definition's
    epoch.

    ``former`` are the acknowledgements of the epoch before (`former_answers`). Raises ``StateError`` for a
    stored state that no step can have left.
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
    """Return what to do about a feed that belongs to another engine now.

    ``acks`` are those of the epoch before the definition's; the other engine deals with the definition's
    epoch. No partition of this engine was ever told of a feed that is in its first epoch. Until the other
    engine has taken the feed over, this engine may still persist the feed's high-water. So no partition may
    leave out rows before that.
    """
    if feed.defined is None or feed.defined.epoch == FIRST_EPOCH:
        return Settled()
    if feed.current_takeover is None and feed.status not in ENDED:
        return Settled()
    return _forget(feed.defined.id, epoch_before(feed.defined), acks, range(partition_count))


def needs_fence(feed: FeedView, step: Step) -> bool:
    """Return whether to fence the writers of the feed's progress and markers before ``step`` (step E2 of
    docs/protocols/ends-of-feeds.md).

    Partitions forget a feed one after the other. A range that moves from a partition that has forgotten the
    feed does not bring the feed's missing versions. So checkpoints of the partition to which the range moves
    may cover rows that nobody wrote. From the first ``Remove`` on no checkpoint may become a marker.
    """
    removes = isinstance(step, Announce) and isinstance(step.message, Remove)
    return removes and feed.status in ENDED and bool(feed.targets)


def epoch_before(definition: FeedDefinition) -> FeedEpoch:
    """Return the epoch before the definition's; 0 before the first."""
    return FeedEpoch(definition.epoch - 1)


def starting_state(
    definition: FeedDefinition,
    prepared: Prepare,
    targets: tuple[FeedTarget, ...],
    sink_cluster: str = "",
    topics: OutputTopics = (),
) -> StateRecord:
    """Return the record to store once the topics exist.

    The record fixes the feed's start, and the topics' cluster, for ever.
    """
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
    """Return the state of a feed that cannot run.

    ``topics`` is what was stored about the topics that the feed may have created.
    """
    return StateRecord(definition.id, definition.epoch, FeedState.FAILED, error=brief(reason), topics=topics)


def waiting(definition: FeedDefinition, reason: str, topics: OutputTopics = ()) -> StateRecord:
    """Return the state of a feed that cannot go on yet.

    An empty ``reason`` says that nothing stops the feed any more. ``topics`` is as in ``failed``.
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
        is_from_now=cursor is None and not feed.targets,
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
    """Return why an earlier epoch of the feed failed; an empty text if none did.

    The versions that a failed epoch missed do not come in the next epoch. The failure may be in the state
    that was stored while the feed was moved, or known only to the feed's partitions.
    """
    stored = feed.state
    if stored is not None and stored.epoch < definition.epoch and stored.state is FeedState.FAILED:
        return stored.error or "it had failed"
    for _, ack in sorted(former.items()):
        if reason := failure_of(ack):
            return _where(ack, reason)
    return ""


def _where(ack: Ack, reason: str) -> str:
    """Return the reason with its place. Without a partition the place is the feed as a whole."""
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
    """Return why the feed cannot have its tables; an empty text if it can.

    It is enough if one partition has the descriptor of a table.

    ``refused`` are the descriptors that a partition could not accept. Every partition gets the same
    descriptors.
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
    """Return why a feed cannot have tables of these names: a sentence without its full stop.

    A descriptor that cannot be read may be that of any table, so the ``refused`` ones are named.
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
    """Return why the jobs agent must not follow a stored state; an empty text if it may.

    Whoever can write to the jobs topic can store a state that names any topic, and no engine has checked
    that.
    """
    topics = [*(target.topic for target in stored.targets), definition.options.resolved_topic]
    faults = (internal_topic_fault(topic, "drop the feed") for topic in topics if topic)
    return next(filter(None, faults), "")


def _scan_was_all(feed: FeedView, definition: FeedDefinition) -> bool:
    """Return whether the feed is an initial scan only, and this scan is done.

    A partition that fails after that changes nothing.
    """
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
    """Return the next step to end a feed: first to store the end, then to have partitions forget the feed.

    The record of the end also has the start, the targets and the topics with which the feed began, even in an
    earlier epoch, since this record may replace the one that had them. If the feed has had targets, or is
    beyond its first epoch, any partition may know it, even one whose answer is lost. So all are asked.
    Otherwise only the partitions that have answered are asked. The feed's topics are free for another feed
    once all partitions have answered.
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
        # what it waited for, or why it was held, is not the reason of its end
        known = replace(known, error="")
    targets = feed.targets or known.targets
    record = replace(known, state=state, targets=targets, error=brief(error or known.error))
    if record != stored:
        return StoreState(record)
    everybody = bool(record.targets) or definition.epoch > FIRST_EPOCH
    answered = sorted(number for number in acks if number != NO_PARTITION)
    return _forget(definition.id, definition.epoch, acks, range(partition_count) if everybody else answered)


def _forget(feed_id: FeedId, epoch: FeedEpoch, acks: Answers, asked: Iterable[int]) -> Announce | Settled:
    """Return the step to have these partitions forget the feed in epochs up to ``epoch``.

    Partitions that have answered that they forgot it are left out.
    """
    holding = tuple(number for number in asked if not isinstance(acks.get(number), Removed))
    return Announce(Remove(feed_id, epoch), holding) if holding else Settled()
