"""Ids from a registry that is slow, away, refuses us, or refuses a schema."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

import pytest

from schemas.schema_ids import RegistrySchemaIds
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.errors import FeedError, RegistryAway, RegistryDenied, SchemaRejected, StatementError
from tidegate.worker.operations.metrics import REGISTRY

_URL: Final = "http://reader:secret@registry.invalid:8081?timeout=1s"
_OTHER: Final = "http://other.invalid:8081"
_KEY, _VALUE = SubjectSchema("t-key", "k"), SubjectSchema("t-value", "v")
_FEED, _SECOND = FeedId("feed"), FeedId("second")


class _Registry:
    """A registry whose calls wait for ``gate``, and then raise what is in ``errors``, one after the other."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.closed = threading.Event()
        self.errors: list[Exception] = []
        self.asked: list[SubjectSchema] = []
        self.daemons: set[bool] = set()
        self.checks = 0
        self.looked_for: list[NewSubjects] = []
        self._ids: dict[SubjectSchema, int] = {}

    def known(self, schema: SubjectSchema) -> int | None:
        return self._ids.get(schema)

    def id_of(self, schema: SubjectSchema) -> int:
        self.asked.append(schema)
        self._answer()
        return self._ids.setdefault(schema, len(self._ids) + 1)

    def check(self) -> None:
        self.checks += 1
        self._answer()

    def close(self) -> None:
        self.closed.set()

    def require_new(self, subjects: NewSubjects) -> None:
        self.looked_for.append(subjects)
        self._answer()

    def _answer(self) -> None:
        self.daemons.add(threading.current_thread().daemon)
        assert self.gate.wait(30)
        if self.errors:
            raise self.errors.pop(0)


class _Registries:
    def __init__(self) -> None:
        self.opened: dict[str, _Registry] = {_URL: _Registry(), _OTHER: _Registry()}

    def of(self, url: str) -> _Registry:
        if url not in self.opened:
            raise StatementError("confluent_schema_registry is not a URL")
        return self.opened[url]

    def take_unused(self, urls: Iterable[str]) -> Sequence[_Registry]:
        unused = self.opened.keys() - {*urls}
        return [self.opened.pop(url) for url in sorted(unused)]

    def close(self) -> None:
        self.opened.clear()


class _Bench:
    def __init__(self) -> None:
        self.registries = _Registries()
        self.registry, self.other = self.registries.opened.values()
        self.ids = RegistrySchemaIds(self.registries, first_pause_s=0.001, longest_pause_s=0.004)


def _run(scenario: Callable[[_Bench], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario(_Bench()))


async def _until(true: Callable[[], bool]) -> None:
    """Wait for what must come; pytest's time limit ends a test where it does not."""
    while not true():  # noqa: ASYNC110 - threads work meanwhile, and tell nobody
        await asyncio.sleep(0.001)


def _counted(what: str) -> float:
    return REGISTRY.get_sample_value(f"tidegate_schema_{what}_total", {"feed": _FEED}) or 0.0


def test_ids_are_those_of_the_registry_and_known_from_then_on() -> None:
    async def scenario(bench: _Bench) -> None:
        assert bench.ids.known(_URL, [_KEY]) is None
        assert await bench.ids.ids(_URL, _FEED, [_KEY, _VALUE]) == {_KEY: 1, _VALUE: 2}
        assert bench.ids.known(_URL, [_KEY, _VALUE]) == {_KEY: 1, _VALUE: 2}
        assert bench.ids.known(_OTHER, [_KEY]) is None, "another registry has other ids"

    _run(scenario)


def test_all_who_want_a_schema_at_a_time_share_one_call() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.gate.clear()
        asks = [asyncio.ensure_future(bench.ids.ids(_URL, _FEED, [_KEY, _VALUE])) for _ in range(64)]
        await _until(lambda: len(bench.registry.asked) == 2)
        bench.registry.gate.set()
        assert await asyncio.gather(*asks) == [await bench.ids.ids(_URL, _FEED, [_KEY, _VALUE])] * 64
        assert sorted(schema.subject for schema in bench.registry.asked) == ["t-key", "t-value"]

    _run(scenario)


@pytest.mark.parametrize("error", [RegistryAway("it is away"), RegistryDenied("it lets us not in")])
def test_a_registry_that_is_away_or_lets_us_not_in_is_asked_until_it_answers(error: Exception) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.errors = [error] * 5
        retries, registered = _counted("registry_retries"), _counted("registrations")
        assert await bench.ids.ids(_URL, _FEED, [_KEY]) == {_KEY: 1}
        assert len(bench.registry.asked) == 6
        assert _counted("registry_retries") - retries == 5
        assert _counted("registrations") - registered == 1
        assert bench.ids.waiting() == ()

    _run(scenario)


def test_who_waits_is_told_with_the_cause_and_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.ids = RegistrySchemaIds(bench.registries, first_pause_s=60)
        bench.registry.errors = [RegistryAway("connection refused")]
        asks = [asyncio.ensure_future(bench.ids.ids(_URL, feed, [_KEY])) for feed in (_FEED, _SECOND)]
        await _until(lambda: any(wait.cause for wait in bench.ids.waiting()))
        assert [(wait.feed_id, wait.registry, wait.cause, wait.tries) for wait in bench.ids.waiting()] == [
            (feed, "http://reader:redacted@registry.invalid:8081", "connection refused", 1)
            for feed in (_FEED, _SECOND)
        ]
        for ask in asks:
            ask.cancel()
        await asyncio.gather(*asks, return_exceptions=True)
        assert bench.ids.waiting() == ()

    with caplog.at_level(logging.WARNING):
        _run(scenario)
    (line,) = caplog.messages
    assert (
        line == "feed feed waits for its schema registry, which is asked again in 60.0 s. connection refused"
    )


def test_a_registry_that_does_not_answer_at_all_is_seen_while_it_does_not() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.gate.clear()
        ask = asyncio.ensure_future(bench.ids.ids(_URL, _FEED, [_KEY]))
        await _until(lambda: bool(bench.registry.asked))
        assert [(wait.feed_id, wait.tries) for wait in bench.ids.waiting()] == [(_FEED, 0)]
        bench.registry.gate.set()
        await ask

    _run(scenario)


def test_a_refused_schema_is_refused_to_everybody_and_not_asked_again() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.errors = [SchemaRejected("409: not compatible")]
        asks = [bench.ids.ids(_URL, feed, [_KEY]) for feed in (_FEED, _SECOND)]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["409: not compatible"] * 2
        assert bench.registry.asked == [_KEY]
        assert await bench.ids.ids(_URL, _FEED, [_KEY]) == {_KEY: 1}, "who asks later asks anew"

    _run(scenario)


def test_a_schema_that_is_refused_is_heard_of_while_another_waits() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.errors = [RegistryAway("away"), SchemaRejected("409")]
        with pytest.raises(SchemaRejected):
            await bench.ids.ids(_URL, _FEED, [_KEY, _VALUE])
        await asyncio.sleep(0)
        assert bench.ids.waiting() == ()

    _run(scenario)


def test_the_last_who_gives_up_ends_the_asking() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.errors = [RegistryAway("away")] * 10_000
        first, second = (
            asyncio.ensure_future(bench.ids.ids(_URL, feed, [_KEY])) for feed in (_FEED, _SECOND)
        )
        await _until(lambda: len(bench.registry.asked) > 2)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        asked = len(bench.registry.asked)
        await _until(lambda: len(bench.registry.asked) > asked + 1)
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("id of")]
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        ends = await asyncio.gather(*left, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError]
        asked = len(bench.registry.asked)
        await asyncio.sleep(0.05)
        assert len(bench.registry.asked) <= asked + 1, "a call that was under way may still end"

    _run(scenario)


def test_who_gives_up_waits_for_no_call() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.gate.clear()
        ask = asyncio.ensure_future(bench.ids.ids(_URL, _FEED, [_KEY]))
        await _until(lambda: bool(bench.registry.asked))
        ask.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(ask, 60)
        bench.registry.gate.set()

    _run(scenario)


def test_a_registry_that_hangs_takes_few_threads_and_holds_no_other_one() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.gate.clear()
        schemas = [SubjectSchema(f"t{number}-value", "v") for number in range(50)]
        asks = [asyncio.ensure_future(bench.ids.ids(_URL, _FEED, [schema])) for schema in schemas]
        await _until(lambda: len(bench.registry.asked) >= 4)
        assert await bench.ids.ids(_OTHER, _SECOND, [_KEY]) == {_KEY: 1}
        assert len(bench.registry.asked) == 4
        bench.registry.gate.set()
        await asyncio.gather(*asks)
        assert len(bench.registry.asked) == 50

    _run(scenario)


def test_calls_that_were_given_up_keep_their_turn_until_they_end() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.gate.clear()
        schemas = [SubjectSchema(f"t{number}-value", "v") for number in range(9)]
        asks = [asyncio.ensure_future(bench.ids.ids(_URL, _FEED, [schema])) for schema in schemas]
        await _until(lambda: len(bench.registry.asked) == 4)
        for ask in asks[:4]:
            ask.cancel()
        await asyncio.gather(*asks[:4], return_exceptions=True)
        await asyncio.sleep(0.05)
        assert len(bench.registry.asked) == 4
        bench.registry.gate.set()
        await asyncio.gather(*asks[4:])
        assert len(bench.registry.asked) == 9

    _run(scenario)


def test_no_call_is_made_by_the_loops_thread_or_one_that_a_stopping_worker_waits_for() -> None:
    async def scenario(bench: _Bench) -> None:
        await bench.ids.try_ids(_URL, _FEED, [_KEY])
        assert bench.registry.daemons == {True}

    _run(scenario)


@pytest.mark.parametrize("error", [RegistryAway("away"), RegistryDenied("no"), SchemaRejected("409")])
def test_one_try_is_one_try(error: Exception) -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.errors = [error]
        with pytest.raises(type(error)):
            await bench.ids.try_ids(_URL, _FEED, [_KEY])
        assert (bench.registry.checks, bench.registry.asked) == (1, [])
        assert await bench.ids.try_ids(_URL, _FEED, [_KEY]) == {_KEY: 1}
        assert (bench.registry.checks, bench.registry.asked) == (2, [_KEY])

    _run(scenario)


def test_a_url_that_cannot_be_read_refuses_the_feed() -> None:
    async def scenario(bench: _Bench) -> None:
        assert bench.ids.known("nonsense", [_KEY]) is None
        with pytest.raises(SchemaRejected, match="is not a URL"):
            await bench.ids.ids("nonsense", _FEED, [_KEY])
        with pytest.raises(SchemaRejected, match="is not a URL"):
            await bench.ids.try_ids("nonsense", _FEED, ())

    _run(scenario)


def test_a_registry_that_no_live_feed_names_at_two_looks_is_closed_in_a_thread() -> None:
    async def scenario(bench: _Bench) -> None:
        await bench.ids.ids(_URL, _FEED, [_KEY])
        await bench.ids.ids(_OTHER, _SECOND, [_KEY])
        bench.ids.close_unused({_URL, _OTHER})
        bench.ids.close_unused({_OTHER})
        assert bench.registries.opened.keys() == {_URL, _OTHER}
        bench.ids.close_unused({_OTHER})
        assert bench.registries.opened.keys() == {_OTHER}
        await _until(bench.registry.closed.is_set)
        assert not bench.other.closed.is_set()
        assert bench.ids._turns.keys() == {_OTHER}

    _run(scenario)


def test_a_registry_that_is_asked_stays_open_until_the_answer_has_come() -> None:
    async def scenario(bench: _Bench) -> None:
        bench.registry.gate.clear()
        ask = asyncio.ensure_future(bench.ids.ids(_URL, _FEED, [_KEY]))
        await _until(lambda: bool(bench.registry.asked))
        for _ in range(5):
            bench.ids.close_unused(())
        assert not bench.registry.closed.is_set()
        ask.cancel()  # the feed is gone, and the call is under way
        await asyncio.wait({ask})
        for _ in range(5):
            bench.ids.close_unused(())
        assert not bench.registry.closed.is_set()
        bench.registry.gate.set()
        await _until(lambda: not bench.ids._calls)
        bench.ids.close_unused(())
        bench.ids.close_unused(())
        await _until(bench.registry.closed.is_set)

    _run(scenario)


def test_whether_subjects_are_new_is_asked_once_and_beside_the_loop() -> None:
    subjects = NewSubjects(("t-key",))

    async def scenario(bench: _Bench) -> None:
        bench.registry.errors = [FeedError("taken")]
        with pytest.raises(FeedError, match="taken"):
            await bench.ids.require_new(_URL, subjects)
        await bench.ids.require_new(_URL, subjects)
        assert bench.registry.looked_for == [subjects, subjects]
        assert bench.registry.daemons == {True}

    _run(scenario)
