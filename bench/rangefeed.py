"""Measures feeds of one range as CockroachDB measures its own, so that the tables compare line by line.

``BenchmarkRangefeed``: writes, intents with their commits, or closed timestamps of one range, until 1, 10 or
100 feeds of the whole range have taken all events that followed. ``BenchmarkCatchUpScan``: a catch-up over
versions of 64 bytes, one for each key. A given share of them is at or below the start of the catch-up. They
are written in the order of their keys (linear), so that whole blocks are passed over, or in any order
(random). Times are processor time, the best of several passes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from operator import methodcaller
from random import Random
from time import process_time_ns
from typing import Final, NamedTuple, TypeAlias

from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import CommitIntent, TxnId, WriteIntent, WriteValue
from tidegate.rangefeed.catchup import StoredVersion, VersionBlock, block_of, catch_up
from tidegate.rangefeed.memory_budget import MemoryBudget
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span

FEEDS: Final = (1, 10, 100)
EXCLUDED_PERCENT: Final = (0, 50, 75, 95, 99)
_RANGE: Final = Span(b"a", b"z")
_VALUE: Final = b"a few bytes of data"
_STORED_VALUE: Final = bytes(64)
_BLOCK_KEYS: Final = 1_000
_READ_EVENTS: Final = 1_000
_PASSES: Final = 3


class FeedCost(NamedTuple):
    """Nanoseconds for each event that goes in. ``ns_budget`` is the same with an account of the events'
    memory."""

    events: str
    feeds: int
    ns: float
    ns_budget: float


class ResolverCost(NamedTuple):
    """The resolver alone, with a number of transactions that are open while others commit."""

    open_txns: int
    ns: float
    ops_per_s: float


class CatchUpCost(NamedTuple):
    """Milliseconds for the whole catch-up. ``ms_diff`` is the same with previous values."""

    versions: int
    written: str
    excluded_percent: int
    ms: float
    ms_diff: float


class RangeFeedCosts(NamedTuple):
    """The results of all measurements of range feeds."""

    feeds: list[FeedCost]
    resolver: list[ResolverCost]
    catch_up: list[CatchUpCost]


#: Offers one event to the range.
_Offer: TypeAlias = Callable[[RangeFeed], bool]


def range_feed_costs(events: int, versions: int, seed: int) -> RangeFeedCosts:
    """Measure with ``events`` events and ``versions`` stored versions; slow cases have fewer events."""
    return RangeFeedCosts(
        [feed_cost(kind, feeds, max(events // feeds, 100)) for kind in INPUTS for feeds in FEEDS],
        [resolver_cost(open_txns, events) for open_txns in (1, 100, events // 2)],
        catch_up_costs(versions, seed),
    )


# ---- events ----


def feed_cost(kind: str, feeds: int, count: int) -> FeedCost:
    """Measure an event of this kind with ``feeds`` feeds."""
    inputs = INPUTS[kind](count)
    plain = min(_feed_ns(inputs, feeds, None) for _ in range(_PASSES))
    accounted = min(_feed_ns(inputs, feeds, MemoryBudget()) for _ in range(_PASSES))
    return FeedCost(kind, feeds, plain / len(inputs), accounted / len(inputs))


def _feed_ns(inputs: list[_Offer], feeds: int, budget: MemoryBudget | None) -> int:
    resolver = Resolver()
    resolver.initialise()
    config = RangeFeedConfig(buffered_events_max=2 * len(inputs) + 1)
    range_feed = RangeFeed(_RANGE, resolver=resolver, config=config, budget=budget)
    registered = [feed for _ in range(feeds) if (feed := range_feed.register(FeedRequest(_RANGE)))]
    _leave_inputs_alone()
    begin = process_time_ns()
    for offer in inputs:
        offer(range_feed)
    for feed in registered:
        read_all(feed)
    return process_time_ns() - begin


def read_all(feed: Registration) -> int:
    """Take all events that wait. Return how many they were."""
    read = 0
    while events := feed.take(_READ_EVENTS):
        read += len(events)
    return read


def _writes(count: int) -> list[_Offer]:
    ops = [(WriteValue(_key(number), Timestamp(number + 1), _VALUE),) for number in range(count)]
    return [methodcaller("offer_ops", op) for op in ops]


def _commits(count: int) -> list[_Offer]:
    """Return events of ``count // 2`` transactions: an intent of each, and then a commit of each."""
    intents = [(_intent(number),) for number in range(count // 2)]
    commits = [(_commit(number, number + 1),) for number in range(count // 2)]
    return [methodcaller("offer_ops", op) for op in [*intents, *commits]]


def _closed(count: int) -> list[_Offer]:
    closed = [ClosedTimestamp(Timestamp(number + 1)) for number in range(count)]
    return [methodcaller("offer_closed", at) for at in closed]


INPUTS: Final[dict[str, Callable[[int], list[_Offer]]]] = {
    "write": _writes,
    "commit": _commits,
    "closedts": _closed,
}


def resolver_cost(open_txns: int, ops: int) -> ResolverCost:
    """Measure intents and their commits, with ``open_txns`` transactions open at any time. The oldest one
    commits first.
    """
    txns = ops // 2
    intents = [_intent(number) for number in range(txns)]
    commits = [_commit(number, number + open_txns) for number in range(txns)]
    ordered: list[WriteIntent | CommitIntent] = []
    for number, intent in enumerate(intents):
        ordered.append(intent)
        if number >= open_txns:
            ordered.append(commits[number - open_txns])
    ordered += commits[max(txns - open_txns, 0) :]
    ns = min(_resolver_ns(ordered) for _ in range(_PASSES)) / len(ordered)
    return ResolverCost(open_txns, ns, 1e9 / ns)


def _resolver_ns(ops: list[WriteIntent | CommitIntent]) -> int:
    resolver = Resolver()
    resolver.initialise()
    _leave_inputs_alone()
    begin = process_time_ns()
    for op in ops:
        resolver.apply(op)
    return process_time_ns() - begin


def _key(number: int) -> bytes:
    return b"k%07d" % number


def _txn(number: int) -> TxnId:
    return TxnId(number.to_bytes(16, "big"))


def _intent(number: int) -> WriteIntent:
    at = Timestamp(number + 1)
    return WriteIntent(_txn(number), b"anchor", at, at)


def _commit(number: int, wall: int) -> CommitIntent:
    return CommitIntent(_txn(number), _key(number), Timestamp(max(wall, number + 1)), _VALUE)


# ---- catch-up ----


def catch_up_costs(versions: int, seed: int) -> list[CatchUpCost]:
    """Measure every shape and share, over ``versions`` versions."""
    return [
        CatchUpCost(versions, written, percent, *_catch_up_ms(blocks, versions * percent // 100))
        for written, blocks in (
            ("linear", stored(versions, None)),
            ("random", stored(versions, Random(seed))),
        )
        for percent in EXCLUDED_PERCENT
    ]


def stored(versions: int, order: Random | None) -> list[VersionBlock]:
    """Return one version for each key, at timestamps 1 to ``versions``. The timestamps rise with the keys, or
    are in any order."""
    walls = list(range(1, versions + 1))
    if order is not None:
        order.shuffle(walls)
    made = [StoredVersion(_key(key), Timestamp(wall), _STORED_VALUE) for key, wall in enumerate(walls)]
    return [block_of(made[first : first + _BLOCK_KEYS]) for first in range(0, versions, _BLOCK_KEYS)]


def _catch_up_ms(blocks: list[VersionBlock], start: int) -> tuple[float, float]:
    request = FeedRequest(_RANGE, Timestamp(start))
    return _pass_ms(request, blocks), _pass_ms(request._replace(with_diff=True), blocks)


def _pass_ms(request: FeedRequest, blocks: list[VersionBlock]) -> float:
    _leave_inputs_alone()
    best = min(_catch_up_ns(request, blocks) for _ in range(_PASSES))
    return best / 1e6


def _catch_up_ns(request: FeedRequest, blocks: list[VersionBlock]) -> int:
    feed = Registration(request, catch_up(request, blocks))
    begin = process_time_ns()
    read_all(feed)
    return process_time_ns() - begin


def _leave_inputs_alone() -> None:
    """Let the garbage collector look only at what is made from the inputs. The inputs stand for data that a
    store holds."""
    gc.collect()
    gc.freeze()
