"""The plan of one run: everything that is drawn from its seed before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from sim.options import StoreOptions
from sim.plan import OutcomeMix, Workload
from sim.workloads.bank import Bank, BankOptions
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.simulation.alterations import Altered
from tests.simulation.clients import NetworkOptions
from tests.simulation.odd_plan import PLAIN, OddPlan, draw_odd_log
from tests.simulation.registry import NO_REGISTRY, RegistryPlan, draw_registry
from tests.simulation.sinks import (
    SinkPlan,
    draw_limits,
    draw_refusals,
    draw_sinks,
    follow,
    have_troubles,
    with_breaks_at_drops,
    with_fail_overs,
    with_strangers,
)
from tests.simulation.stops import PlannedStop, draw_stops
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format, InitialScan, OnOversize

_SNAPSHOT_MS: Final = 2_000
_EVENTFUL: Final = OutcomeMix(restart=0.1, abort=0.08, abandon=0.06)


@dataclass(frozen=True, slots=True)
class Profile:
    """The troubles that a run may have. Counts are the most of each kind of fault in one run.

    ``seconds`` are of virtual time, during which the store writes ``rows_per_s``. ``gaps``: feeds may begin
    in the past, or with a scan. ``sinks``: sinks have troubles of their own. With ``witnessed`` the first
    feed's sink has none, and all feeds are there from the beginning. With ``strangers`` the addresses of all
    sinks mean other clusters at times, and with ``fail_overs`` for good, which operators accept.
    ``refusals``: some refuse rows for good, and their feeds fail; others take no large rows, and their feeds
    leave these out. ``schemas``: the share of the seeds whose feeds have some, which a registry keeps.
    ``odd``: the share of the seeds whose log is odd. ``drops``: the share of the feeds that are dropped.
    ``takeovers``: feeds are moved to another engine and back, or to another cluster with ``fail_overs``,
    while data changes outside the op log. ``stops``: the share of the seeds in which workers are told to
    stop, and do so in order. ``scanned``: feeds begin with a scan and go on, so that their topics have
    snapshots, in one envelope or another. ``least_records``: batches and fetches are not smaller. A worker
    steps about 130 batches a second, and a store writes 300 records a second or more. With batches of one
    record, a run of a minute would leave more undone than the run has time for at its end, and markers would
    lag although no sink holds them back.
    """

    seconds: tuple[float, float] = (4.0, 10.0)
    rows_per_s: tuple[float, float] = (20.0, 80.0)
    workers: int = 3
    partitions: int = 3
    feeds: int = 2
    kills: int = 4
    pauses: int = 3
    rebalances: int = 3
    outages: int = 3
    disk_faults: int = 1
    strandings: int = 3
    moves: bool = True
    holes: bool = True
    network: bool = True
    gaps: bool = True
    sinks: bool = True
    refusals: bool = False
    witnessed: bool = False
    strangers: bool = False
    fail_overs: bool = False
    schemas: float = 0.35
    least_records: int = 1
    odd: float = 0.25
    drops: float = 0.15
    takeovers: bool = False
    stops: float = 0.0
    scanned: bool = False


#: Without faults of workers, of the cluster, of the source.
_QUIET: Final = Profile(
    kills=0,
    pauses=0,
    rebalances=0,
    outages=0,
    disk_faults=0,
    strandings=0,
    network=False,
    holes=False,
    schemas=0.0,
    odd=0.0,
    drops=0.0,
)

PROFILES: Final = {
    "fast": Profile(stops=0.25),
    "crashes": Profile(workers=1, pauses=0, rebalances=0, kills=8, strandings=6, odd=0.0, drops=0.0),
    "still": Profile(moves=False, holes=False, gaps=False, sinks=False, schemas=0.0, odd=0.0, drops=0.0),
    "moves": Profile(holes=False, odd=0.0, drops=0.0),
    "calm": replace(_QUIET, moves=False, gaps=False, sinks=False),
    "sinks": replace(_QUIET, seconds=(11.0, 14.0), rows_per_s=(20.0, 50.0), witnessed=True, least_records=10),
    "refusals": replace(
        _QUIET, rows_per_s=(50.0, 150.0), partitions=2, feeds=3, kills=2, refusals=True, gaps=False, drops=0.3
    ),
    "odd": Profile(kills=2, pauses=1, outages=1, sinks=False, schemas=0.0, feeds=3, odd=1.0, drops=0.3),
    "strangers": replace(_QUIET, moves=False, gaps=False, kills=1, strangers=True),
    "fail-overs": replace(_QUIET, seconds=(7.0, 12.0), gaps=False, kills=2, rebalances=1, fail_overs=True),
    "takeovers": replace(_QUIET, seconds=(7.0, 12.0), kills=2, rebalances=1, sinks=False, takeovers=True),
    "changed-fail-overs": replace(
        _QUIET, seconds=(7.0, 12.0), gaps=False, kills=1, fail_overs=True, takeovers=True
    ),
    "schemas": Profile(
        moves=False, holes=False, kills=1, pauses=0, outages=0, strandings=0, schemas=1.0, odd=0.0, drops=0.0
    ),
    "subscribers": Profile(
        seconds=(3.0, 6.0), strandings=1, disk_faults=0, schemas=0.5, odd=0.0, drops=0.0, scanned=True
    ),
    "stops": Profile(kills=1, pauses=1, outages=1, disk_faults=0, strandings=1, odd=0.0, stops=1.0),
    "long": Profile(
        seconds=(20.0, 90.0),
        kills=12,
        pauses=8,
        rebalances=8,
        outages=8,
        disk_faults=3,
        strandings=8,
        least_records=10,
        stops=0.25,
    ),
}


class Fault(NamedTuple):
    """Something that goes wrong at a time. The worker or the partition that it hits is drawn at that time."""

    at: float
    kind: str


class PlannedMove(NamedTuple):
    """A feed is moved to another engine at a time. That engine takes it over ``taken_s`` later, or never, and
    the feed comes back ``back_s`` after it was moved."""

    at: float
    taken_s: float | None
    back_s: float


class PlannedFeed(NamedTuple):
    """A feed that is created at a time. It begins in the past at the timestamp of a version: ``cursor`` is
    the share of the history until then that it passes over. It may be dropped at another time, or moved."""

    at: float
    options: FeedOptions
    cursor: float | None = None
    dropped_at: float | None = None
    move: PlannedMove | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run. ``waits_for_feed``: the store writes nothing, and nothing goes wrong, before a feed runs."""

    seed: int
    seconds: float
    waits_for_feed: bool
    workers: int
    partitions: int
    output_partitions: int
    checkpoint_partitions: int
    batch_records: int
    slowness: float
    store: StoreOptions
    network: NetworkOptions
    lost_requests: float
    late_requests: float
    duplicates: float
    slow_markers: float
    push_age_ms: int
    push_repeat_ms: int
    feeds: tuple[PlannedFeed, ...]
    sinks: SinkPlan
    registry: RegistryPlan
    odd: OddPlan
    faults: tuple[Fault, ...]
    stops: tuple[PlannedStop, ...]
    #: So few that many steps end before the end of their batch, or so many that none does.
    step_bytes: int = 64 << 20
    #: So few that some waits of ranges are given up, or so many that none is.
    backlog_bytes: int = 1 << 30

    def workload(self) -> Workload:
        """A new workload: the same one every time."""
        workload, alterations = self._unaltered(), self.registry.alterations
        return Altered(workload, alterations, self.seed) if alterations else workload

    def _unaltered(self) -> Workload:
        rng = Random(f"{self.seed}:workload")
        if rng.random() < 0.5:
            return Bank(BankOptions(rng.randint(8, 60), rng.randint(1, 6), _EVENTFUL), self.seed)
        return RandomTransactions(
            RandomOptions(rng.randint(1, 2), rng.randint(1, 4), rng.randint(10, 40), outcomes=_EVENTFUL),
            self.seed,
        )


def draw(seed: int, profile: Profile) -> RunPlan:
    """The run of a seed."""
    plan = _draw(seed, profile)
    certain = profile.witnessed or profile.strangers or profile.fail_overs
    if profile.sinks and (certain or have_troubles(seed)):
        feeds = tuple(map(_from_the_beginning, plan.feeds)) if profile.witnessed else plan.feeds
        sinks = draw_sinks(seed, len(feeds), plan.seconds, witnessed=profile.witnessed)
        if profile.strangers:
            sinks = with_strangers(sinks, seed, plan.seconds)
        if profile.fail_overs:
            sinks = with_fail_overs(sinks, seed, plan.seconds)
        plan = replace(plan, feeds=feeds, sinks=sinks)
    plan = replace(plan, store=_with_indexes(plan.store, Random(f"{seed}:indexes"), profile))
    if profile.refusals:
        plan = replace(plan, sinks=draw_limits(draw_refusals(plan.sinks, seed, plan.seconds), seed))
    plan = _with_takeovers(_with_odd_log(plan, profile), profile)
    plan = _with_markers_aside(plan, profile)
    steps = Random(f"{seed}:steps")
    if steps.random() < 0.5:
        plan = replace(plan, step_bytes=steps.choice((300, 1_500, 10_000)))
    backlogs = Random(f"{seed}:backlogs")
    if backlogs.random() < 0.25:  # later snapshots heal the ranges that are given up because of that bound
        store = replace(plan.store, snapshot_interval_ms=plan.store.snapshot_interval_ms or _SNAPSHOT_MS)
        plan = replace(plan, backlog_bytes=backlogs.choice((20_000, 100_000)), store=store)
    return _with_scans(_with_drops(_with_limits(_with_schemas(plan, profile)), profile), profile)


def _with_scans(plan: RunPlan, profile: Profile) -> RunPlan:
    """Return the plan, perhaps changed so that all feeds begin with a scan."""
    if not profile.scanned:
        return plan
    rng = Random(f"{plan.seed}:scans")
    feeds = (feed._replace(options=_scanned(rng, feed.options)) for feed in plan.feeds)
    return replace(plan, feeds=tuple(feeds))


def _scanned(rng: Random, options: FeedOptions) -> FeedOptions:
    envelope = rng.choice((Envelope.WRAPPED, Envelope.WRAPPED, Envelope.ENRICHED, Envelope.DEBEZIUM))
    if options.format is not Format.JSON:
        envelope = Envelope.WRAPPED
    return replace(options, initial_scan=InitialScan.YES, envelope=envelope)


def _with_markers_aside(plan: RunPlan, profile: Profile) -> RunPlan:
    """Return the plan, perhaps changed so that markers are on a topic of their own and tell the ends of
    topics, which may be on another cluster."""
    rng = Random(f"{plan.seed}:markers aside")
    if not profile.strangers or rng.random() < 0.5:
        return plan
    feeds = (
        feed._replace(options=replace(feed.options, resolved_topic=f"f{number}-markers"))
        for number, feed in enumerate(plan.feeds)
    )
    return replace(plan, feeds=tuple(feeds))


def _with_indexes(store: StoreOptions, rng: Random, profile: Profile) -> StoreOptions:
    """Return the options of the store, which perhaps builds secondary indexes. That changes nothing else of
    the run's plan."""
    builds = profile.moves and rng.random() < 0.25
    return replace(store, build_index_every_ms=rng.choice((300, 2_000))) if builds else store


def _with_odd_log(plan: RunPlan, profile: Profile) -> RunPlan:
    """Return the plan, perhaps changed so that the source's log is odd. What the log lacks then comes with
    later snapshots."""
    odd = draw_odd_log(plan.seed, profile.odd, plan.seconds)
    if odd == PLAIN:
        return plan
    return replace(plan, odd=odd, store=replace(plan.store, snapshot_interval_ms=_SNAPSHOT_MS))


def _with_takeovers(plan: RunPlan, profile: Profile) -> RunPlan:
    """Return the plan, changed so that feeds move to other engines or clusters, and data changes outside the
    op log before, during and after a move."""
    if not profile.takeovers:
        return plan
    rng = Random(f"{plan.seed}:takeovers")
    feeds, windows = plan.feeds, []
    if profile.fail_overs:
        over = (sink.fails_over for sink in plan.sinks.sinks)
        windows = [(each.at, each.at + each.accepted_s) for each in over if each is not None]
    else:
        feeds = tuple(feed._replace(move=_move(rng, plan.seconds)) for feed in feeds)
        windows = [(feed.move.at, feed.move.at + feed.move.back_s) for feed in feeds if feed.move is not None]
    mutations = tuple(
        rng.uniform(begins - 0.2, ends + 0.7)
        for begins, ends in windows
        for _ in range(rng.choice((0, 1, 2)))
    )
    return replace(plan, feeds=feeds, odd=replace(plan.odd, mutations=mutations))


def _move(rng: Random, seconds: float) -> PlannedMove:
    back_s = rng.uniform(0.5, 3.0)
    return PlannedMove(
        seconds * rng.uniform(0.3, 0.7), rng.choice((None, back_s * rng.uniform(0.0, 0.8))), back_s
    )


def _with_drops(plan: RunPlan, profile: Profile) -> RunPlan:
    """The plan, in which perhaps feeds are dropped, sooner or later."""
    rng = Random(f"{plan.seed}:drops")
    feeds = (
        feed._replace(dropped_at=rng.uniform(feed.at, plan.seconds)) if rng.random() < profile.drops else feed
        for feed in plan.feeds
    )
    plan = replace(plan, feeds=tuple(feeds))
    if not profile.refusals:
        return plan
    dropped = [feed.dropped_at for feed in plan.feeds]
    return replace(plan, sinks=with_breaks_at_drops(plan.sinks, plan.seed, dropped))


def _with_limits(plan: RunPlan) -> RunPlan:
    """The plan, in which feeds leave out the rows that their sinks do not take."""
    feeds = (
        feed._replace(options=_leaving_out(feed.options, sink.max_row_bytes)) if sink.max_row_bytes else feed
        for feed, sink in zip(plan.feeds, plan.sinks.sinks, strict=True)
    )
    return replace(plan, feeds=tuple(feeds))


def _leaving_out(options: FeedOptions, max_row_bytes: int) -> FeedOptions:
    return replace(options, on_oversize=OnOversize.KEY_ONLY, max_row_bytes=max_row_bytes)


def _with_schemas(plan: RunPlan, profile: Profile) -> RunPlan:
    """The plan, in which perhaps feeds have schemas."""
    rebalances = profile.rebalances > 0
    registry = draw_registry(plan.seed, profile.schemas, len(plan.feeds), plan.seconds, rebalances=rebalances)
    feeds = (
        feed._replace(options=registry.options(number, feed.options))
        for number, feed in enumerate(plan.feeds)
    )
    return replace(plan, feeds=tuple(feeds), registry=registry)


def _draw(seed: int, profile: Profile) -> RunPlan:
    rng = Random(f"{seed}:plan")
    seconds = rng.uniform(*profile.seconds)
    partitions = rng.randint(1, profile.partitions)
    plan = RunPlan(
        seed=seed,
        seconds=seconds,
        waits_for_feed=rng.random() < 0.7,
        workers=rng.randint(1, profile.workers),
        partitions=partitions,
        output_partitions=rng.randint(1, 4),
        checkpoint_partitions=rng.randint(1, 2),
        batch_records=max(profile.least_records, rng.choice((1, 5, 20, 100))),
        slowness=rng.choice((0.0, 0.02, 0.3)) if profile.network else 0.0,
        store=_store(rng, profile, partitions, rng.uniform(*profile.rows_per_s)),
        network=_network(rng, profile.least_records) if profile.network else NetworkOptions(slow=0.0),
        lost_requests=rng.choice((0.0, 0.3)) if profile.network else 0.0,
        late_requests=rng.choice((0.0, 0.3)) if profile.network else 0.0,
        duplicates=rng.choice((0.0, 0.05)) if profile.network else 0.0,
        slow_markers=rng.choice((0.0, 0.0, 0.1)) if profile.network else 0.0,
        push_age_ms=rng.choice((50, 300, 1_000)),
        push_repeat_ms=rng.choice((50, 500)),
        feeds=_feeds(rng, Random(f"{seed}:starts"), profile, seconds),
        sinks=follow(0),
        registry=NO_REGISTRY,
        odd=PLAIN,
        faults=_faults(rng, profile, seconds),
        stops=draw_stops(seed, profile.stops, seconds),
    )
    return replace(plan, sinks=follow(len(plan.feeds)))


def _feeds(rng: Random, starts: Random, profile: Profile, seconds: float) -> tuple[PlannedFeed, ...]:
    least = 2 if profile.witnessed else 1
    feeds = [_feed(rng, number, seconds) for number in range(rng.randint(least, profile.feeds))]
    return tuple(_from_elsewhere(starts, feed) if profile.gaps else feed for feed in feeds)


def _from_elsewhere(starts: Random, feed: PlannedFeed) -> PlannedFeed:
    """The feed, which perhaps begins in the past, or with a scan."""
    scan = starts.choice((InitialScan.NO, InitialScan.NO, InitialScan.YES, InitialScan.ONLY))
    cursor = starts.choice((None, starts.random(), starts.random()))
    if feed.at == 0.0 and scan is InitialScan.ONLY:
        scan = InitialScan.YES  # there is no history yet, and at least one feed has to have rows
    return PlannedFeed(feed.at, replace(feed.options, initial_scan=scan), cursor)


def _from_the_beginning(feed: PlannedFeed) -> PlannedFeed:
    """Return the feed, changed so that it is there from the beginning to the end."""
    scan = feed.options.initial_scan
    goes_on = InitialScan.YES if scan is InitialScan.ONLY else scan
    return PlannedFeed(0.0, replace(feed.options, initial_scan=goes_on), feed.cursor)


def _store(rng: Random, profile: Profile, partitions: int, rows_per_s: float) -> StoreOptions:
    moves = profile.moves and rng.random() < 0.7
    holes = profile.holes and rng.random() < 0.4
    return StoreOptions(
        partitions=partitions,
        write_rate=rows_per_s,
        nodes=rng.randint(1, 3),
        closed_lag_ms=rng.choice((50, 200, 1_000)),
        heartbeat_ms=rng.choice((100, 300, 1_000)),
        max_offset_ms=rng.choice((0, 50, 250)),
        descriptor_interval_ms=rng.choice((1_000, 10_000)),
        snapshot_interval_ms=700 if holes else rng.choice((0, 700)),
        snapshot_chunk_intents=rng.choice((1, 1_000)),
        txn_expiry_ms=rng.choice((200, 1_000)),
        request_gap_ms=rng.choice((0, 5, 50, 150)),
        resolve_delay_ms=rng.choice((0, 50, 400)),
        request_writes=rng.choice((1, 4, 64)),
        rejected_fraction=rng.choice((0.0, 0.1)),
        zombie_fraction=rng.choice((0.0, 0.3)),
        scan_chunk_rows=rng.choice((1, 5, 1_000)),
        scan_gap_ms=rng.choice((0, 30)),
        split_every_ms=rng.choice((300, 1_500)) if moves else 0,
        merge_every_ms=rng.choice((0, 300, 1_500)) if moves else 0,
        move_lease_every_ms=rng.choice((0, 500)) if moves else 0,
        ship_delay_ms=rng.choice((0, 0, 50)),
        skip_every_ms=rng.choice((0, 700, 3_000)) if holes else 0,
        opless_every_ms=rng.choice((0, 700, 3_000)) if holes else 0,
    )


def _network(rng: Random, least_records: int) -> NetworkOptions:
    return NetworkOptions(
        usual_s=rng.choice((0.001, 0.005, 0.03)),
        slow=rng.choice((0.0, 0.02, 0.1)),
        slow_s=rng.choice((0.1, 1.0)),
        refused=rng.choice((0.0, 0.0, 0.002)),
        aborted=rng.choice((0.0, 0.0, 0.03)),
        queue_records=rng.choice((3, 50, 100_000)),
        fetch_records=max(least_records, rng.choice((1, 10, 100))),
    )


def _feed(rng: Random, number: int, seconds: float) -> PlannedFeed:
    begins = 0.0 if number == 0 else rng.uniform(0.0, seconds * 0.6)
    options = FeedOptions(
        updated=True,
        resolved_interval_ns=rng.choice((0, 0, 500_000_000)),
        diff=rng.random() < 0.3,
        topic_prefix=f"f{number}-",
    )
    return PlannedFeed(begins, options)


def _faults(rng: Random, profile: Profile, seconds: float) -> tuple[Fault, ...]:
    counts = {
        "kill": profile.kills,
        "pause": profile.pauses,
        "rebalance": profile.rebalances,
        "outage": profile.outages,
        "disk": profile.disk_faults,
        "strand": profile.strandings,
    }
    found = [
        Fault(seconds * rng.uniform(0.1, 1.0), kind)
        for kind, most in counts.items()
        for _ in range(rng.randint(0, most))
    ]
    return tuple(sorted(found))
