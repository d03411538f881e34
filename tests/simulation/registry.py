"""A schema registry that is slow, late or away, for feeds with schemas: its plan is drawn independently, so
that nothing else of a seed's plan changes.

It is asked by the workers' own code (``schemas.schema_ids``). Processes forget what it told them, and the
tables of such runs get columns on the way: so there are questions in the middle of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple, TypeVar

from tests.simulation.scheduler import Process, Scheduler
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.errors import MalformedRecord, RegistryAway

URL: Final = "http://registry.invalid:8081"
#: The share of the feeds with schemas in a run with a registry: the others must go on while these wait.
_FEEDS: Final = 0.7
#: The seconds that a drain waits for sinks, and more.
SINKS_LONGER_S: Final = 1.5
_CALM_S: Final = 0.01
_TIMEOUT_S: Final = 1.0
_TRANSACTIONS_PER_S: Final = 8.0  # about so many; an alteration after the last one has no effect

ResultT = TypeVar("ResultT")


class Absence(NamedTuple):
    """An absence from ``at`` on, for ``seconds``. A client of a ``silent`` registry learns of the absence
    only by its timeout.

    With ``sinks_before`` all sinks stand still as well, from so many seconds before to ``SINKS_LONGER_S``
    after it: so rows that wait for sinks are followed by rows that wait for ids. Partitions may change hands
    ``rebalance_after`` seconds after its begin.
    """

    at: float
    seconds: float
    silent: bool
    sinks_before: float | None
    rebalance_after: float | None


@dataclass(frozen=True, slots=True)
class RegistryPlan:
    """The registry of a run, and the requests to it.

    ``feeds`` says of each feed whether it has schemas. Each way to the registry and back takes up to
    ``usual_s``; a share ``late`` of the answers comes up to ``late_s`` later. A share ``lost`` of the answers
    never comes, although the registry has done what it was asked for. A process remembers the last ``kept``
    ids. Before the transactions with the numbers ``alterations`` a table gets one more column.
    """

    feeds: tuple[bool, ...] = ()
    usual_s: float = 0.0
    late: float = 0.0
    late_s: float = 0.0
    lost: float = 0.0
    absences: tuple[Absence, ...] = ()
    kept: int = 1_000
    alterations: frozenset[int] = frozenset()

    def options(self, number: int, options: FeedOptions) -> FeedOptions:
        """Return the options of feed ``number``, in the format that it has here."""
        if not self.feeds or not self.feeds[number]:
            return options
        return replace(options, format=Format.AVRO, confluent_schema_registry=URL)


#: The plan of a run in which no feed has schemas.
NO_REGISTRY: Final = RegistryPlan()


def draw_registry(seed: int, share: float, feeds: int, seconds: float, *, rebalances: bool) -> RegistryPlan:
    """The registry of a run with so many feeds, in this share of seeds. It may bring ``rebalances``."""
    rng = Random(f"{seed}:registry")
    if rng.random() >= share:
        return NO_REGISTRY
    first = rng.randrange(feeds)
    transactions = int(seconds * _TRANSACTIONS_PER_S)
    return RegistryPlan(
        feeds=tuple(rng.random() < _FEEDS or number == first for number in range(feeds)),
        usual_s=rng.choice((0.002, 0.01, 0.3)),
        late=rng.choice((0.0, 0.3)),
        late_s=rng.choice((0.5, 3.0)),
        lost=rng.choice((0.0, 0.2)),
        absences=tuple(_absence(rng, seconds, rebalances=rebalances) for _ in range(rng.choice((0, 3, 6)))),
        kept=rng.choice((1, 1, 1_000)),
        alterations=frozenset(rng.randrange(1, transactions) for _ in range(rng.choice((0, 1, 4)))),
    )


def _absence(rng: Random, seconds: float, *, rebalances: bool) -> Absence:
    lasts_s = rng.choice((0.5, 2.0, 4.0)) * rng.random()
    with_sinks = rng.random() < 0.7
    sinks_before = rng.choice((0.03, 0.1, 0.3)) * rng.random()
    rebalance_after = lasts_s * rng.random()
    return Absence(
        at=seconds * rng.random(),
        seconds=lasts_s,
        silent=rng.random() < 0.3,
        sinks_before=sinks_before if with_sinks else None,
        rebalance_after=rebalance_after if with_sinks and rebalances else None,
    )


class Registry:
    """The registry itself: ids from 1 on, by the order of the registrations. It loses none."""

    def __init__(self, plan: RegistryPlan, seed: int, scheduler: Scheduler) -> None:
        self.calm = False
        self.plan = plan
        self._scheduler = scheduler
        self._rng = Random(f"{seed}:registry's answers")
        self._ids: dict[SubjectSchema, int] = {}
        self._texts: dict[int, str] = {}
        #: The number of questions that it has answered, those with a lost answer included.
        self.answered = 0
        self._away_until = 0.0
        self._silent = False

    def go_away(self, until: float, *, silent: bool) -> None:
        """Answer nobody up to ``until``."""
        self._away_until = max(self._away_until, until)
        self._silent = silent

    def id_of(self, schema: SubjectSchema) -> int:
        """Return the id of a schema, which never changes."""
        if schema not in self._ids:
            self._ids[schema] = number = len(self._ids) + 1
            self._texts[number] = schema.text
        return self._ids[schema]

    def schema_text(self, schema_id: int) -> str:
        """Return what was registered. Raises ``MalformedRecord`` for an id that nobody was given."""
        try:
            return self._texts[schema_id]
        except KeyError:
            raise MalformedRecord(f"the registry never gave the id {schema_id}") from None

    def ask(self, act: Callable[[], ResultT]) -> ResultT:
        """Do ``act`` at the registry and return its result, after the time that a request takes. Blocks.
        Raises ``RegistryAway``."""
        self._scheduler.block(self._way())
        if not self.calm and self._scheduler.now < self._away_until:
            self._scheduler.block(_TIMEOUT_S if self._silent else 0.0)
            raise RegistryAway(f"The schema registry at {URL} is away.")
        result = act()
        self.answered += 1
        if self._happens(self.plan.lost):
            self._scheduler.block(_TIMEOUT_S)
            raise RegistryAway(f"The schema registry at {URL} did not answer in {_TIMEOUT_S:.0f} s.")
        late_s = self._rng.random() * self.plan.late_s if self._happens(self.plan.late) else 0.0
        self._scheduler.block(self._way() + late_s)
        return result

    def _way(self) -> float:
        return self._rng.random() * (_CALM_S if self.calm else self.plan.usual_s)

    def _happens(self, share: float) -> bool:
        return not self.calm and self._rng.random() < share


class RegistryClient:
    """See ``schemas.schema_ids.AskedRegistry``: what one process knows of the registry."""

    def __init__(self, process: Process, registry: Registry) -> None:
        self._process = process
        self._registry = registry
        self._kept = registry.plan.kept
        self._known: dict[SubjectSchema, int] = {}

    def known(self, schema: SubjectSchema) -> int | None:
        return self._known.get(schema)

    def id_of(self, schema: SubjectSchema) -> int:
        self._process.require_alive()
        found = self._registry.ask(lambda: self._registry.id_of(schema))
        self._known[schema] = found
        while len(self._known) > self._kept:
            del self._known[next(iter(self._known))]
        return found

    def check(self) -> None:
        self._process.require_alive()
        self._registry.ask(lambda: None)

    def require_new(self, subjects: NewSubjects) -> None:
        """Do nothing: no simulated feed has a subject that is not named as its topic."""
        raise NotImplementedError


class RegistryClients:
    """See ``schemas.schema_ids.Registries``: all feeds name the same one."""

    def __init__(self, process: Process, registry: Registry) -> None:
        self._client = RegistryClient(process, registry)

    def of(self, url: str) -> RegistryClient:
        assert url == URL
        return self._client

    def take_unused(self, urls: Iterable[str]) -> tuple[()]:
        """Take none: the client stays open."""
        return ()

    def close(self) -> None:
        """There is nothing to close."""
