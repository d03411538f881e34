"""Records of an application's own topics: jobs, control, answers, hand-offs, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError, Message

from tests.fuzz.json_mutators import altered_json
from tests.fuzz.message_mutators import altered
from tests.fuzz.mutators import damaged
from tests.fuzz.parts import joined, two
from tests.fuzz.target import Target
from tests.hostile.corpus.texts import MESSAGES
from tests.unit.changefeed.feeds import DEFINITION, FEED, ORDERS, TARGET
from tidegate.changefeed.definition.feed import FIRST_EPOCH, LASTING, FeedState
from tidegate.changefeed.lifecycle.control import (
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
    ack_key,
    control_key,
    read_ack_record,
    read_control_record,
)
from tidegate.changefeed.lifecycle.feed_answers import FeedAnswers
from tidegate.changefeed.lifecycle.feed_progress import FeedProgress
from tidegate.changefeed.lifecycle.frontier import FeedFrontier
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    SpansRecord,
    StateRecord,
    TakeoverRecord,
    read_job_record,
)
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, TopicOrigin
from tidegate.changefeed.lifecycle.registration import step_on
from tidegate.errors import ForeignRecord, StateError
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed, PartitionCheckpoint, RangeCheckpoint
from tidegate.processor.checkpoint import (
    PartitionProgress,
    checkpoint_key,
    encode_checkpoint,
    read_report_record,
)
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.exchange_codec import encode_exchange, read_exchange_record
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.spans import Span
from tidegate.worker.markers.checkpoint_routes import CheckpointRoutes

_Stored: TypeAlias = tuple[bytes, bytes]
_AT: Final = Timestamp(1_700_000_000_000_000_000, 3)
_RESOLVED: Final = ResolvedTimestamp(_AT)
_SPAN: Final = Span(b"a", b"b")
_PARTITIONS: Final = 3
_NAMED: Final = (ForeignRecord, StateError)

_CONTROL: Final[tuple[ControlMessage, ...]] = (
    Register(DEFINITION),
    Activate(DEFINITION, _AT, (TARGET,)),
    Remove(FEED, FIRST_EPOCH),
)
_ACKS: Final[tuple[Ack, ...]] = (
    Registered(FEED, FIRST_EPOCH, 0, 5, _AT, (KnownTable(ORDERS, 104),), ("no",)),
    Active(FEED, FIRST_EPOCH, 1),
    Failed(FEED, FIRST_EPOCH, 2, "because"),
    Removed(FEED, FIRST_EPOCH, 0, "because"),
)
_TOPICS: Final = (
    OutputTopic("4L6g3nShT-eMCtK--X86sw", TopicOrigin.CREATED),
    OutputTopic("", TopicOrigin.CREATED),
)
_JOBS: Final[tuple[JobRecord, ...]] = (
    DefinitionRecord(DEFINITION),
    DropRecord(FEED, 7),
    StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, _AT, (TARGET,), {0: 5}, "why", "id", _TOPICS[:1]),
    ProgressRecord(FEED, FIRST_EPOCH, _RESOLVED, {0: 5, 1: 7}, _RESOLVED),
    SpansRecord(FEED, FIRST_EPOCH, ((_SPAN, _RESOLVED),)),
    TakeoverRecord(
        FEED, FIRST_EPOCH, _AT, _RESOLVED, (TARGET,), "id", _RESOLVED, _RESOLVED, True, _TOPICS[:1]
    ),
)
_CLAIM: Final = Claim(RangeId(3), RangeId(1), RaftIndex(5), _SPAN, 7)
_TOLD: Final = (ToldGaps("feed", (Gap(_SPAN, _AT), Gap(Span(b"b", b"c"), None))),)
_EXCHANGES: Final = (
    encode_exchange(_CLAIM),
    encode_exchange(HandOff(_CLAIM, _RESOLVED, complete=True, span=Span(b"a", b"z"), told_gaps=_TOLD)),
)
_CHECKPOINT: Final = PartitionCheckpoint(
    2,
    Offset(7),
    (ActiveFeed(FEED, FIRST_EPOCH),),
    (RangeCheckpoint(RangeId(1), Generation(2), _SPAN, _RESOLVED),),
    5,
    (RangeId(4),),
    6,
)
_REPORTS: Final = ((checkpoint_key(2), encode_checkpoint(_CHECKPOINT)),)


def _json_drawn(seeds: Sequence[_Stored]) -> Callable[[Random], bytes]:
    return _drawn([*seeds, *((seeds[0][0], case.value) for case in MESSAGES)], altered_json)


def _message_drawn(kind: type[Message], seeds: Sequence[_Stored]) -> Callable[[Random], bytes]:
    """Return a drawer of messages behind a byte that tells their version."""

    def change(chance: Random, value: bytes) -> bytes:
        if chance.random() < 0.5:
            return damaged(chance, value)
        try:
            return value[:1] + altered(chance, kind.FromString(value[1:]))
        except DecodeError:
            return damaged(chance, value)

    return _drawn(seeds, change)


def _drawn(seeds: Sequence[_Stored], change: Callable[[Random, bytes], bytes]) -> Callable[[Random], bytes]:
    def draw(chance: Random) -> bytes:
        key, value = chance.choice(seeds)
        stored_key = damaged(chance, key) if chance.random() < 0.1 else key
        return joined((stored_key, change(chance, value)))

    return draw


def _read_with(read: Callable[[bytes | None, bytes], object]) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        key, value = two(data)
        # A record without a value is not given to these: it takes a part of a feed away, or says nothing.
        return repr(read(key, value or b"")).encode()

    return run


class _Taker:
    """Takes checkpoints for the feed, as the publisher of its markers does."""

    def __init__(self) -> None:
        self.definition = DEFINITION
        self.frontier: FeedFrontier | None = FeedFrontier([_SPAN], Timestamp(1), 0)

    def apply(self, report: PartitionProgress) -> None:
        assert self.frontier is not None
        self.frontier.apply_columns(
            report.partition, report.offset, report.starts, report.ends, report.resolved
        )


def _delivered(key: bytes | None, value: bytes) -> object:
    """Read a checkpoint, and give it to a feed behind a healthy one."""
    report = read_report_record(key, value, _PARTITIONS)
    taker = _Taker()
    routes = CheckpointRoutes[_Taker](lambda _: True)
    routes.begin(taker)
    routes.deliver([read_report_record(*_REPORTS[0], _PARTITIONS), report])
    routes.deliver([report])
    return report, taker.frontier and (taker.frontier.high_water, taker.frontier.due_marker())


def _followed(key: bytes | None, value: bytes) -> object:
    """Read a record of the jobs topic behind healthy ones, and take the next steps of its feed."""
    record = read_job_record(key, value)
    view = JobsView()
    for each in (_JOBS[0], _JOBS[2]):
        view.apply(each.key, each.to_bytes())
    feed = view[view.apply(key, value)]
    definition, state = feed.definition, feed.current_state
    if definition is not None:
        for engine in LASTING:
            step_on(engine, feed, {}, _PARTITIONS)
        if state is not None and state.start is not None:
            FeedProgress(definition, state).begin(feed).due_marker()
    return record


def _heard(key: bytes | None, value: bytes) -> object:
    """Read an answer behind healthy ones, and take the next step of its feed in each of its states."""
    answers = FeedAnswers()
    for answer in (_ACKS[0], read_ack_record(key, value, _PARTITIONS)):
        answers.add(answer)
    feed = FeedView(defined=DEFINITION)
    for state in (None, *FeedState):
        stored = None if state is None else StateRecord(FEED, FIRST_EPOCH, state, _AT, (TARGET,))
        step_on(DEFINITION.engine, replace(feed, state=stored), answers.by_epoch(FEED), _PARTITIONS)
    return answers.of(FEED, FIRST_EPOCH)


TARGETS: Final = (
    Target(
        "control",
        _json_drawn([(control_key(FEED), message.to_bytes()) for message in _CONTROL]),
        _read_with(read_control_record),
        _NAMED,
    ),
    Target(
        "acks",
        _json_drawn([(ack_key(ack), ack.to_bytes()) for ack in _ACKS]),
        _read_with(_heard),
        _NAMED,
    ),
    Target(
        "jobs",
        _json_drawn([(record.key, record.to_bytes()) for record in _JOBS]),
        _read_with(_followed),
        _NAMED,
    ),
    Target("handoff", _message_drawn(pb.Exchange, _EXCHANGES), _read_with(read_exchange_record), _NAMED),
    Target(
        "checkpoints",
        _message_drawn(pb.Checkpoint, _REPORTS),
        _read_with(_delivered),
        _NAMED,
    ),
)
