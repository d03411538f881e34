"""Gets schema ids from registries, for all parts of a worker (``tidegate.worker.process.schema_ids``).

If several partitions or feeds ask for a schema at the same time, one question goes to the registry. It is
repeated while the registry is away.

Calls block. A call to a registry that hangs blocks for as long as the registry's URL allows. So each call has
a thread of its own. It is a daemon, for which a stopping worker does not wait, and a registry has at most
``_CALLS`` of them.

The HTTP request of a call has a second thread. If the call gives up, this thread stays until the connection
gives up as well. That takes a few times the registry's timeout, or longer for a server that sends its headers
byte by byte. There are never two such threads for one schema.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.secret_store import Secrets
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.errors import RetryError, SchemaRejected, StatementError
from tidegate.registry.known_registries import SchemaRegistries
from tidegate.worker.operations.metrics import REGISTRY_RETRIES, SCHEMAS
from tidegate.worker.process.machine import REAL
from tidegate.worker.process.schema_ids import RegistryWait

_CALLS: Final = 4  # calls to one registry at the same time, at most
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0

#: Its lines pass ``app.repeated_lines``, which drops repeated ones while a registry is away.
_log = logging.getLogger("tidegate.schemas")
ResultT = TypeVar("ResultT")
#: Runs work beside the event loop, in a thread of the given name
#: (``tidegate.worker.process.machine.Machine.background``).
Background: TypeAlias = Callable[[Callable[[], None], str], object]


class AskedRegistry(Protocol):
    """The part of ``tidegate.registry.schema_registration.SchemaRegistrar`` that this module uses."""

    def known(self, schema: SubjectSchema) -> int | None: ...
    def id_of(self, schema: SubjectSchema) -> int: ...
    def check(self) -> None: ...
    def require_new(self, subjects: NewSubjects) -> None: ...


class _Closable(Protocol):
    def close(self) -> None: ...


class Registries(Protocol):
    """The part of ``tidegate.registry.known_registries.SchemaRegistries`` that this module uses."""

    def of(self, url: str) -> AskedRegistry: ...
    def take_unused(self, urls: Iterable[str]) -> Sequence[_Closable]: ...
    def close(self) -> None: ...


class _Ask:
    """The question for the id of one schema. ``feeds`` counts, for each feed, the waits for the answer."""

    def __init__(self) -> None:
        self.feeds: Counter[FeedId] = Counter()
        self.since = asyncio.get_running_loop().time()
        self.tries = 0
        self.cause = ""
        self.task: asyncio.Task[int]


class RegistrySchemaIds:
    """The ids of schemas, from registries (``tidegate.worker.process.schema_ids.SchemaIds``).

    ``allowed`` has the registries that feeds may name.
    """

    def __init__(
        self,
        registries: Registries | None = None,
        *,
        allowed: Destinations = NOWHERE_ELSE,
        secrets: Secrets | None = None,
        background: Background = REAL.background,
        first_pause_s: float = _FIRST_PAUSE_S,
        longest_pause_s: float = _LONGEST_PAUSE_S,
    ) -> None:
        self._registries: Registries = registries or SchemaRegistries(allowed, secrets)
        self._background = background
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._asks: dict[tuple[str, SubjectSchema], _Ask] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._calls: Counter[str] = Counter()  # those that are under way
        self._used_before: frozenset[str] = frozenset()

    def known(self, url: str, schemas: Sequence[SubjectSchema]) -> Mapping[SubjectSchema, int] | None:
        """See ``SchemaIds``."""
        ids: dict[SubjectSchema, int] = {}
        try:
            registry = self._registries.of(url)
        except StatementError:  # `ids` raises an error for it
            return None
        for schema in schemas:
            found = registry.known(schema)
            if found is None:
                return None
            ids[schema] = found
        return ids

    async def ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """See ``SchemaIds``."""
        asks = {schema: self._join(url, feed_id, schema) for schema in schemas}
        try:
            found = await asyncio.gather(*(asyncio.shield(ask.task) for ask in asks.values()))
        finally:
            for schema, ask in asks.items():
                self._leave(url, feed_id, schema, ask)
        return dict(zip(asks, found, strict=True))

    async def try_ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """See ``SchemaIds``."""
        await self._call(url, self._registry(url).check)
        return {schema: await self._id(url, feed_id, schema) for schema in schemas}

    async def require_new(self, url: str, subjects: NewSubjects) -> None:
        """See ``SchemaIds``."""
        registry = self._registry(url)
        await self._call(url, lambda: registry.require_new(subjects))

    def waiting(self) -> tuple[RegistryWait, ...]:
        """See ``SchemaIds``. Each feed and registry has one entry, for the schema with the most tries."""
        waits: dict[tuple[FeedId, str], RegistryWait] = {}
        for (url, _), ask in self._asks.items():
            for feed_id in ask.feeds:
                wait = RegistryWait(feed_id, _redacted(url), ask.cause, ask.tries, ask.since)
                if wait.tries >= waits.get((feed_id, url), wait).tries:
                    waits[feed_id, url] = wait
        return tuple(waits[place] for place in sorted(waits))

    def close_unused(self, urls: Collection[str]) -> None:
        """See ``SchemaIds``. Clients are closed in a thread."""
        now = frozenset((*urls, *self._calls, *(url for url, _ in self._asks)))
        used, self._used_before = now | self._used_before, now
        for url in self._turns.keys() - used:
            self._turns.pop(url, None)
        unused = self._registries.take_unused(used)
        if unused:

            def close() -> None:
                for registry in unused:
                    registry.close()

            self._background(close, "schema-registry-close")

    def close(self) -> None:
        """See ``SchemaIds``."""
        self._registries.close()

    # ---- one schema

    def _join(self, url: str, feed_id: FeedId, schema: SubjectSchema) -> _Ask:
        ask = self._asks.get((url, schema))
        if ask is None:
            ask = self._asks[url, schema] = _Ask()
            ask.task = asyncio.create_task(self._ask(url, schema, ask), name=f"id of {schema.subject}")
            ask.task.add_done_callback(_look_at)
        ask.feeds[feed_id] += 1
        return ask

    def _leave(self, url: str, feed_id: FeedId, schema: SubjectSchema, ask: _Ask) -> None:
        """Wait no more for a schema. The question is dropped once no feed waits for its answer."""
        ask.feeds[feed_id] -= 1
        ask.feeds += Counter()  # drops the entries at 0
        if not ask.feeds:
            ask.task.cancel()
            self._asks.pop((url, schema), None)  # a KeyError would show the URL, which may hold secrets

    async def _ask(self, url: str, schema: SubjectSchema, ask: _Ask) -> int:
        pause_s = self._first_pause_s
        while True:
            feed_id = min(ask.feeds)
            try:
                found = await self._id(url, feed_id, schema)
            except RetryError as error:
                ask.cause, ask.tries = str(error), ask.tries + 1
            else:
                if ask.tries:
                    _log.info("the schema registry %s answers feed %s again", _redacted(url), feed_id)
                return found
            REGISTRY_RETRIES.labels(feed_id).inc()
            _log.warning(
                "feed %s waits for its schema registry, which is asked again in %.1f s. %s",
                feed_id,
                pause_s,
                ask.cause,
            )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._longest_pause_s)

    async def _id(self, url: str, feed_id: FeedId, schema: SubjectSchema) -> int:
        """Return the id of a schema: a known one, or the answer to one call."""
        registry = self._registry(url)
        found = registry.known(schema)
        if found is None:
            found = await self._call(url, lambda: registry.id_of(schema))
            SCHEMAS.labels(feed_id).inc()
        return found

    def _registry(self, url: str) -> AskedRegistry:
        """Return the registry at ``url``.

        Raises ``SchemaRejected`` if the URL cannot be that of a registry.
        """
        try:
            return self._registries.of(url)
        except StatementError as error:
            raise SchemaRejected(str(error)) from None

    # ---- threads

    async def _call(self, url: str, call: Callable[[], ResultT]) -> ResultT:
        """Make the call once fewer than ``_CALLS`` calls to the registry are under way.

        If the caller gives up, the call runs on, and counts until it has ended.
        """
        turns = self._turns.setdefault(url, asyncio.Semaphore(_CALLS))
        await turns.acquire()
        self._calls[url] += 1

        def ended(_: object) -> None:
            turns.release()
            self._calls[url] -= 1
            self._calls += Counter()  # drops the entries at 0

        answer = self._in_background(call)
        answer.add_done_callback(ended)
        return await asyncio.shield(answer)

    def _in_background(self, call: Callable[[], ResultT]) -> asyncio.Future[ResultT]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ResultT] = loop.create_future()
        answer.add_done_callback(_look_at)

        def run() -> None:
            try:
                result = call()
            except Exception as error:
                tell(answer.set_exception, error)
            else:
                tell(answer.set_result, result)

        def tell(say: Callable[..., None], what: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile, so nobody waits
                loop.call_soon_threadsafe(say, what)

        self._background(run, "schema-registry")
        return answer


def _look_at(answer: asyncio.Future[ResultT]) -> None:
    """Mark the error of an answer as seen. Otherwise asyncio logs it once all who waited have given up."""
    if not answer.cancelled():
        answer.exception()


def _redacted(url: str) -> str:
    """Return the URL of the registry without secrets; ``(unreadable)`` if it cannot be parsed."""
    try:
        return parse_registry_uri(url).shown
    except StatementError:
        return "(unreadable)"
