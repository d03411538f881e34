"""Sinks that stand still, are slow, break producers, or refuse rows for good: their plan is drawn
independently, so that nothing else of a seed's plan changes.

A feed's sink is the cluster of the workers, or one of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from tests.simulation.clients import Grown, Network
from tests.simulation.scheduler import Scheduler

#: The largest lag in seconds of a feed's markers while another sink stands still.
WITNESS_LAG_S: Final = 5.0
_WITNESSED_S: Final = 8.0
_LATE_S: Final = 0.4
#: The address of the workers' own cluster, and its address after the cluster was renamed.
OWN: Final = "127.0.0.1:9092"
RENAMED: Final = "10.1.0.1:9092"
#: Limits for rows in bytes: all rows are larger than the first, none is larger than the last, and many rows
#: have sizes near the others.
_ROW_BYTES: Final = (1, 84, 85, 86, 90, 100, 120, 150, 10_000)
#: A drain lasts 2 s in a run, and half of it is for sinks.
_PATIENT_MS: Final = 1_000


class TroubleKind(enum.Enum):
    """The behaviour of a sink for a while."""

    STANDS = "stands still"
    REFUSES = "breaks sequences"
    FAILS = "has an error of its own as the next answer"


class Refusal(enum.Enum):
    """The reason why rows of a sink cannot be delivered any more, so that its feed has to fail."""

    DELETED = "its topics are deleted"
    TOO_LARGE_FOR_US = "a row is above our limit"
    TOO_LARGE_FOR_THE_BROKER = "a row is above the broker's limit"

    @property
    def words(self) -> str:
        """The words that the feed's error must have."""
        match self:
            case Refusal.DELETED:
                return "it was deleted"
            case Refusal.TOO_LARGE_FOR_US:
                return "above the limit of"
            case Refusal.TOO_LARGE_FOR_THE_BROKER:
                return "above the topic's max.message.bytes"


class Trouble(NamedTuple):
    """A trouble from ``at`` on, for ``seconds``."""

    at: float
    seconds: float
    kind: TroubleKind


class Origin(enum.Enum):
    """The origin of the timestamp that the operator chooses."""

    THERE = "the lowest of the last markers there"
    MARKER = "the last marker before"
    HIGH_WATER = "a timestamp up to the high-water"
    START = "its start"


@dataclass(frozen=True, slots=True)
class FailOver:
    """A fail-over: from ``at`` on the address means the other cluster, which is accepted ``accepted_s``
    later."""

    at: float
    accepted_s: float
    origin: Origin
    share: float  # of what lies between the start and the high-water, or of what a mirror has


def draw_fail_over(rng: Random, seconds: float) -> FailOver:
    """Return a fail-over within a run of so many seconds."""
    at, accepted_s = seconds * rng.uniform(0.3, 0.7), rng.uniform(1.5, 3.0)
    return FailOver(at, accepted_s, rng.choice(list(Origin)), rng.random())


@dataclass(frozen=True, slots=True)
class PlannedSink:
    """The plan for one feed's sink. ``late_s``: the additional seconds that acknowledgements take. Its
    ``refusal`` comes at ``refuses_at``.

    ``max_row_bytes``: the feed leaves out larger rows, each of which the producer or the broker
    (``limit_of``) would refuse. 0 means that no row is too large by itself.

    ``strange``: when, and for how many seconds, its address means another cluster, whatever records that has.
    ``fails_over``: when its address comes to mean another cluster for good.
    """

    elsewhere: bool = False
    late_s: float = 0.0
    troubles: tuple[Trouble, ...] = ()
    refusal: Refusal | None = None
    refuses_at: float = 0.0
    strange: tuple[tuple[float, float], ...] = ()
    fails_over: FailOver | None = None
    max_row_bytes: int = 0
    limit_of: Grown = Grown.FOR_US

    def servers(self, number: int) -> str:
        """Return the servers of the sink of feed ``number``."""
        return f"10.0.0.{number}:9092" if self.elsewhere else OWN


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The sinks of a run, one for each feed, and the settings that are about them.

    ``renamed_at``: the time at which the workers' own cluster gets another address. All workers are then
    started again with it. ``witnessed``: the sink of the first feed is as it should be, nothing else goes
    wrong, and its markers must go on while others stand still.
    """

    sinks: tuple[PlannedSink, ...]
    stall_ms: int = _PATIENT_MS
    memory_bytes: int = 64 << 20
    spool_bytes: int = 0
    witnessed: bool = False
    renamed_at: float | None = None


def follow(feeds: int) -> SinkPlan:
    """Return a plan in which no sink has troubles of its own."""
    return SinkPlan((PlannedSink(),) * feeds)


def have_troubles(seed: int) -> bool:
    """Whether sinks have troubles at all in the run of this seed. Some runs have none, because the repair of
    what a detached feed misses hides other defects."""
    return Random(f"{seed}:sinks at all").random() >= 0.5


def draw_sinks(seed: int, feeds: int, seconds: float, *, witnessed: bool) -> SinkPlan:
    """Return the plan for the sinks of a run of so many seconds."""
    rng = Random(f"{seed}:sinks")
    planned = tuple(_sink(rng, seconds) for _ in range(feeds))
    stall_ms = rng.choice((40, 100, 300))
    memory_bytes = rng.choice((1, 2_000, 64 << 20))
    spool_bytes = rng.choice((0, 500, 5_000, 1 << 30))
    if witnessed:
        stand = Trouble(seconds - _WITNESSED_S, _WITNESSED_S, TroubleKind.STANDS)
        planned = PlannedSink(), *(PlannedSink(True, 0.0, (stand,)) for _ in planned[1:])
    if not witnessed:
        astray = Random(f"{seed}:strange clusters")
        planned = tuple(replace(sink, strange=_strange(astray, seconds)) for sink in planned)
    renaming = Random(f"{seed}:own cluster's name")
    renamed_at = seconds * renaming.random() if not witnessed and renaming.random() < 0.5 else None
    return SinkPlan(planned, stall_ms, memory_bytes, spool_bytes, witnessed, renamed_at)


def draw_refusals(plan: SinkPlan, seed: int, seconds: float) -> SinkPlan:
    """Return the plan, changed so that some sinks refuse rows for good from a time on, and all break
    producers now and then."""
    rng = Random(f"{seed}:refusals")
    return replace(plan, sinks=tuple(_refusing(rng, sink, seconds) for sink in plan.sinks))


def with_breaks_at_drops(plan: SinkPlan, seed: int, dropped_at: Sequence[float | None]) -> SinkPlan:
    """Return the plan, changed so that the sinks of dropped feeds acknowledge late and break producers around
    the drop."""
    rng = Random(f"{seed}:breaks at drops")
    sinks = (
        sink if at is None else replace(sink, late_s=_LATE_S, troubles=(*sink.troubles, _break_at(rng, at)))
        for sink, at in zip(plan.sinks, dropped_at, strict=True)
    )
    return replace(plan, sinks=tuple(sinks))


def _break_at(rng: Random, at: float) -> Trouble:
    return Trouble(at + rng.random() * 0.5, 1.0, TroubleKind.REFUSES)


def draw_limits(plan: SinkPlan, seed: int) -> SinkPlan:
    """Return the plan, changed so that the sinks which refuse nothing take no large rows, and their feeds
    leave those out."""
    rng = Random(f"{seed}:row limits")
    return replace(plan, sinks=tuple(_limited(rng, sink) for sink in plan.sinks))


def _limited(rng: Random, sink: PlannedSink) -> PlannedSink:
    max_row_bytes, limit_of = rng.choice(_ROW_BYTES), rng.choice((*Grown,))
    if sink.refusal is not None:
        return sink
    return replace(sink, max_row_bytes=max_row_bytes, limit_of=limit_of)


def _refusing(rng: Random, sink: PlannedSink, seconds: float) -> PlannedSink:
    refusal = rng.choice((None, *Refusal))
    breaks = (
        Trouble(seconds * rng.random(), rng.random(), TroubleKind.REFUSES) for _ in range(rng.randint(0, 8))
    )
    return replace(
        sink,
        late_s=rng.choice((0.0, 0.05, 0.4)),
        troubles=(*sink.troubles, *breaks),
        refusal=refusal,
        refuses_at=seconds * rng.uniform(0.2, 1.0),
    )


def _sink(rng: Random, seconds: float) -> PlannedSink:
    return PlannedSink(
        elsewhere=rng.random() < 0.5,
        late_s=rng.choice((0.0, 0.0, 0.0, 0.05, 0.4)),
        troubles=tuple(_trouble(rng, seconds) for _ in range(rng.choice((0, 1, 2, 4)))),
    )


def with_strangers(plan: SinkPlan, seed: int, seconds: float) -> SinkPlan:
    """Return the plan with sinks on clusters of their own, whose addresses mean other clusters at times."""
    rng = Random(f"{seed}:strangers")
    sinks = (PlannedSink(True, sink.late_s, strange=_strange(rng, seconds, (2, 4, 8))) for sink in plan.sinks)
    return replace(plan, sinks=tuple(sinks), renamed_at=None)


def with_fail_overs(plan: SinkPlan, seed: int, seconds: float) -> SinkPlan:
    """Return the plan with sinks on clusters of their own, which fail over."""
    rng = Random(f"{seed}:fail-overs")
    sinks = (
        PlannedSink(
            True,
            sink.late_s,
            strange=_strange(rng, seconds, (0, 0, 2, 4)),
            fails_over=draw_fail_over(rng, seconds),
        )
        for sink in plan.sinks
    )
    return replace(plan, sinks=tuple(sinks), renamed_at=None)


def _strange(
    rng: Random, seconds: float, counts: tuple[int, ...] = (0, 1, 3, 8)
) -> tuple[tuple[float, float], ...]:
    times, longest_s = rng.choice(counts), rng.choice((0.3, 1.5, 4.0))
    return tuple((seconds * rng.random(), longest_s * rng.random()) for _ in range(times))


def _trouble(rng: Random, seconds: float) -> Trouble:
    kind = rng.choice((TroubleKind.STANDS, TroubleKind.STANDS, TroubleKind.STANDS, TroubleKind.REFUSES))
    longest_s = 0.5 if kind is TroubleKind.REFUSES else rng.choice((0.3, 1.0, 4.0))
    return Trouble(seconds * rng.random(), longest_s * rng.random(), kind)


def plan_troubles(
    plan: SinkPlan, scheduler: Scheduler, network: Network, say: Callable[[str, str], None]
) -> None:
    """Let the planned troubles come, from now on."""

    def begin(name: str, trouble: Trouble) -> None:
        say(name, f"{trouble.kind.value} for {trouble.seconds:.2f} s")
        _begin_trouble(network, name, trouble.kind, scheduler.now + trouble.seconds)

    def refuse(name: str, refusal: Refusal) -> None:
        say(name, refusal.value)
        match refusal:
            case Refusal.DELETED:
                network.lose(name)
            case Refusal.TOO_LARGE_FOR_US:
                network.grow(name, Grown.FOR_US)
            case Refusal.TOO_LARGE_FOR_THE_BROKER:
                network.grow(name, Grown.FOR_THE_BROKER)

    for number, sink in enumerate(plan.sinks):
        network.late_s[name := sink_name(number)] = sink.late_s
        for trouble in sink.troubles:
            scheduler.after(trouble.at, lambda name=name, trouble=trouble: begin(name, trouble))  # type: ignore[misc]
        if sink.refusal is not None:
            scheduler.after(
                sink.refuses_at,
                lambda name=name, refusal=sink.refusal: refuse(name, refusal),  # type: ignore[misc]
            )


def _begin_trouble(network: Network, name: str, kind: TroubleKind, until: float) -> None:
    match kind:
        case TroubleKind.STANDS:
            network.stand_still(name, until)
        case TroubleKind.REFUSES:
            network.refuse(name, until)
        case TroubleKind.FAILS:
            network.fail_next(name)


def limit_rows(plan: SinkPlan, network: Network) -> None:
    """Let sinks refuse what is too large for them, from the beginning."""
    for number, sink in enumerate(plan.sinks):
        if sink.max_row_bytes:
            network.limit(sink_name(number), sink.max_row_bytes, sink.limit_of)


def sink_name(number: int) -> str:
    """Return the name by which the network knows the sink of feed ``number``. The names of its topics begin
    with it."""
    return f"f{number}"
