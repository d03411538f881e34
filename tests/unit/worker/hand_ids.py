"""Schema ids that come when a test lets them come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.errors import SchemaRejected
from tidegate.processor.reference import content_id
from tidegate.worker.process.schema_ids import RegistryWait


class HandIds:
    """A ``SchemaIds``. What is ``ready`` or ``given`` is known; everything else is asked for, and waits.

    Ids follow from the schema, like the reference engine's. ``asked`` are the questions that were begun,
    ``open`` those that nobody has answered or given up;
    ``looked_up`` are the registries that somebody was interested in, ``live`` those that feeds named at each
    look for unused ones.
    """

    def __init__(self, ready: Callable[[SubjectSchema], bool] = lambda schema: False) -> None:
        self._ready = ready
        self._given: set[SubjectSchema] = set()
        self._refused: dict[SubjectSchema, str] = {}
        self.asked: list[tuple[str, FeedId, SubjectSchema]] = []
        self.open: list[SubjectSchema] = []
        self.looked_up: set[str] = set()
        self.live: list[frozenset[str]] = []
        self._news = asyncio.Condition()

    async def give(self, *schemas: SubjectSchema) -> None:
        """The registry answers."""
        self._given.update(schemas)
        await self._tell()

    async def refuse(self, schema: SubjectSchema, words: str) -> None:
        """The registry refuses a schema."""
        self._refused[schema] = words
        await self._tell()

    def known(self, url: str, schemas: Sequence[SubjectSchema]) -> Mapping[SubjectSchema, int] | None:
        """See ``SchemaIds``."""
        self.looked_up.add(url)
        if not all(self._is_known(schema) for schema in schemas):
            return None
        return {schema: content_id(schema) for schema in schemas}

    async def ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """See ``SchemaIds``."""
        for schema in schemas:
            if not self._is_known(schema):
                await self._answer(url, feed_id, schema)
        return {schema: content_id(schema) for schema in schemas}

    async def try_ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """See ``SchemaIds``."""
        raise NotImplementedError

    async def require_new(self, url: str, subjects: NewSubjects) -> None:
        """See ``SchemaIds``."""
        raise NotImplementedError

    def waiting(self) -> tuple[RegistryWait, ...]:
        """See ``SchemaIds``."""
        return ()

    def close_unused(self, urls: Collection[str]) -> None:
        """See ``SchemaIds``."""
        self.live.append(frozenset(urls))

    def close(self) -> None:
        """See ``SchemaIds``."""

    def _is_known(self, schema: SubjectSchema) -> bool:
        return schema in self._given or self._ready(schema)

    async def _answer(self, url: str, feed_id: FeedId, schema: SubjectSchema) -> None:
        self.asked.append((url, feed_id, schema))
        self.open.append(schema)
        try:
            async with self._news:
                await self._news.wait_for(lambda: self._is_known(schema) or schema in self._refused)
        finally:
            self.open.remove(schema)
        if schema in self._refused:
            raise SchemaRejected(self._refused[schema])

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()
