"""Registries are asked before a new feed is announced, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.processor.schemed import REGISTRY, schemed_options
from tests.unit.worker.hand_ids import HandIds
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.errors import FeedError, RegistryAway, RegistryDenied, SchemaRejected
from tidegate.worker.feeds.admission import Admitted, Refused, Verdict, WaitingVerdict
from tidegate.worker.feeds.feed_registries import FeedRegistries
from tidegate.worker.process.schema_ids import RegistryWait

_TABLE: Final = HandTable.of(104, "plain")
_OTHER_URL: Final = "http://other.invalid:8081"


def _feed(name: str, url: str = REGISTRY) -> FeedDefinition:
    options = schemed_options(f"{name}-", confluent_schema_registry=url)
    return activation([_TABLE.descriptor], options, feed_id=name).definition


_FEED: Final = _feed("feed")
_JSON: Final = activation([_TABLE.descriptor], feed_id="json").definition


class _Ids(HandIds):
    """Registries by what they answer; those in ``silent`` do not."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, list[Exception]] = {}
        self.silent: set[str] = set()
        self.tried: list[str] = []
        self.taken: Exception | None = None
        self.looked_for: list[tuple[str, NewSubjects]] = []
        self.waits: tuple[RegistryWait, ...] = ()

    def waiting(self) -> tuple[RegistryWait, ...]:
        return self.waits

    async def try_ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        self.tried.append(url)
        while url in self.silent:  # noqa: ASYNC110 - the test decides when
            await asyncio.sleep(0)
        errors = self.errors.get(url, [])
        if errors:
            raise errors.pop(0)
        return {}

    async def require_new(self, url: str, subjects: NewSubjects) -> None:
        self.looked_for.append((url, subjects))
        if self.taken is not None:
            raise self.taken


class _Bench:
    """The jobs agent's part: it looks at a feed when it is told to."""

    def __init__(self) -> None:
        self.ids = _Ids()
        self.looks: list[tuple[FeedId, float]] = []
        self.now = 100.0
        self.has_begun = False
        self.subjects = NewSubjects()
        self.registries = FeedRegistries(
            self.ids, lambda feed_id, delay: self.looks.append((feed_id, delay)), lambda: self.now
        )

    def ask(self, definition: FeedDefinition = _FEED, live: Iterable[FeedDefinition] = ()) -> Verdict:
        self.looks.clear()
        return self.registries.verdict(definition, live, has_begun=self.has_begun, subjects=self.subjects)

    async def answered(
        self, definition: FeedDefinition = _FEED, live: Sequence[FeedDefinition] = ()
    ) -> Verdict:
        """The verdict of the next look that is called for at once."""
        assert self.ask(definition, live) == WaitingVerdict("")
        while (definition.id, 0.0) not in self.looks:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0)
        return self.ask(definition, live)


def _run(scenario: Callable[[_Bench], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario(_Bench()))


def test_a_feed_without_schemas_beside_others_without_is_admitted_at_once() -> None:
    async def scenario(bench: _Bench) -> None:
        assert bench.ask(_JSON, [_JSON]) == Admitted()
        assert bench.ids.tried == []

    _run(scenario)


def test_a_feed_is_admitted_once_its_registry_has_answered() -> None:
    async def scenario(bench: _Bench) -> None:
        assert await bench.answered() == Admitted()
        assert bench.ask() == Admitted()
        assert bench.ids.tried == [REGISTRY], "one answer is enough"

    _run(scenario)


@pytest.mark.parametrize("error", [RegistryDenied("401: no"), SchemaRejected("not a URL")])
def test_a_feed_that_the_registry_lets_not_in_is_refused_with_its_words(error: Exception) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids.errors[REGISTRY] = [error]
        assert await bench.answered() == Refused(str(error))

    _run(scenario)


def test_a_feed_that_goes_on_waits_for_a_registry_that_lets_us_not_in() -> None:
    """Another login may be given at any time, no partition is held, and nothing is lost meanwhile."""

    async def scenario(bench: _Bench) -> None:
        bench.has_begun = True
        bench.ids.errors[REGISTRY] = [RegistryDenied("401: no."), SchemaRejected("not a URL")]
        expected = "waiting for its schema registry. 401: no. Asked again in 1 s."
        assert await bench.answered() == WaitingVerdict(expected)
        bench.now += 1
        assert bench.ask() == WaitingVerdict(expected)
        while (_FEED.id, 0.0) not in bench.looks:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0)
        assert bench.ask() == Refused("not a URL")

    _run(scenario)


def test_a_registry_that_is_away_is_asked_again_and_the_feed_says_so() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids.errors[REGISTRY] = [RegistryAway("Connection refused.")]
        expected = "waiting for its schema registry. Connection refused. Asked again in 1 s."
        assert await bench.answered() == WaitingVerdict(expected)
        assert bench.looks == [(_FEED.id, 1.0)]
        bench.now += 1
        assert bench.ask() == WaitingVerdict(expected), "what is known stands until there is something new"
        while (_FEED.id, 0.0) not in bench.looks:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0)
        assert bench.ask() == Admitted()

    _run(scenario)


def test_a_registry_that_says_nothing_is_told_of_before_its_time_is_over() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids.silent.add(REGISTRY)
        assert bench.ask() == WaitingVerdict("")
        await asyncio.sleep(0)
        ((_, delay_s),) = bench.looks
        bench.now += delay_s
        expected = "waiting for its schema registry. It has not answered for 3 s."
        assert bench.ask() == WaitingVerdict(expected)
        bench.ids.silent.clear()
        while (_FEED.id, 0.0) not in bench.looks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert bench.ask() == Admitted()

    _run(scenario)


def test_no_feed_begins_while_log_partitions_may_wait_for_the_registry_of_another() -> None:
    """They would not answer the announcement, and all partitions that did are held."""

    async def scenario(bench: _Bench) -> None:
        bench.ids.errors[_OTHER_URL] = [RegistryDenied("403.")]
        verdict = await bench.answered(_JSON, [_feed("live", _OTHER_URL), _feed("more", _OTHER_URL)])
        assert isinstance(verdict, WaitingVerdict)
        assert verdict.reason.startswith("waiting for the schema registry of feed live: log partitions")
        assert bench.ids.tried == [_OTHER_URL]

    _run(scenario)


@pytest.mark.parametrize("definition", [_FEED, _JSON], ids=["avro", "json"])
def test_no_feed_begins_while_rows_of_this_worker_wait_for_a_registry_that_answers_questions(
    definition: FeedDefinition,
) -> None:
    """It may take no schemas, and then answers whoever only asks whether it is there."""

    async def scenario(bench: _Bench) -> None:
        bench.ids.waits = (
            RegistryWait(FeedId("live"), "http://other.invalid", "500: no.", 3, bench.now - 9),
        )
        live = [_feed("live", _OTHER_URL)]
        verdict = await bench.answered(definition, live)
        assert isinstance(verdict, WaitingVerdict)
        assert verdict.reason.startswith("waiting for the schema registry of feed live: log partitions")
        assert verdict.reason.endswith("500: no.")
        assert bench.looks == [(definition.id, 1.0)]
        bench.ids.waits = ()
        assert bench.ask(definition, live) == Admitted()

    _run(scenario)


def test_a_partition_that_still_waits_for_a_feed_that_has_ended_holds_new_feeds_back() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids.waits = (RegistryWait(FeedId("gone"), "http://other.invalid", "500: no.", 3, bench.now),)
        verdict = bench.ask(_JSON)
        assert isinstance(verdict, WaitingVerdict)
        assert "feed gone" in verdict.reason

    _run(scenario)


def test_a_first_question_that_is_young_holds_a_new_feed_back_without_a_word() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids.waits = (RegistryWait(FeedId("live"), "http://other.invalid", "", 0, bench.now),)
        assert bench.ask(_JSON) == WaitingVerdict("")
        assert bench.looks == [(_JSON.id, 1.0)]
        bench.now += 3
        verdict = bench.ask(_JSON)
        assert isinstance(verdict, WaitingVerdict)
        assert verdict.reason.endswith("It has not answered yet.")

    _run(scenario)


def test_what_a_feeds_own_registry_says_comes_before_what_others_wait_for() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids.waits = (
            RegistryWait(FeedId("live"), "http://other.invalid", "500: no.", 3, bench.now - 9),
        )
        bench.ids.errors[REGISTRY] = [RegistryDenied("401: no")]
        assert await bench.answered() == Refused("401: no")

    _run(scenario)


def test_a_forgotten_feed_is_asked_for_anew_when_it_comes_back() -> None:
    async def scenario(bench: _Bench) -> None:
        assert await bench.answered() == Admitted()
        bench.registries.forget(_FEED.id)
        assert await bench.answered() == Admitted()
        assert bench.ids.tried == [REGISTRY, REGISTRY]

    _run(scenario)


def test_a_feeds_own_registry_is_asked_whether_its_subjects_are_new() -> None:
    subjects = NewSubjects(("s-key", "s-value"))

    async def scenario(bench: _Bench) -> None:
        bench.subjects = subjects
        assert await bench.answered(live=[_feed("live", _OTHER_URL)]) == Admitted()
        assert bench.ids.looked_for == [(REGISTRY, subjects)]
        bench.registries.forget(_FEED.id)
        bench.ids.taken = FeedError("the subject s-key is there already")
        assert await bench.answered() == Refused("the subject s-key is there already")
        bench.registries.forget(_FEED.id)
        bench.ids.taken = RegistryAway("no answer")
        verdict = await bench.answered()
        assert isinstance(verdict, WaitingVerdict)
        assert verdict.reason.startswith("waiting for its schema registry. no answer")

    _run(scenario)


def test_nothing_is_asked_of_subjects_that_need_not_be_new() -> None:
    async def scenario(bench: _Bench) -> None:
        assert await bench.answered() == Admitted()
        assert bench.ids.looked_for == []

    _run(scenario)
