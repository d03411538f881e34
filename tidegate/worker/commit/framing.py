"""Puts the ids of schemas into the rows of a processor step: step 2a of docs/protocols/rows-with-schemas.md.

Known ids are put in at once. The loop asks a registry for the others, and they are put in when the answer has
come. Until then nothing of the step is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import FeedError
from tidegate.processor.batch import StepResult
from tidegate.processor.containment import feed_error
from tidegate.processor.feeds.framing import frame, schemas_of
from tidegate.worker.process.schema_ids import SchemaIds


class FeedProcessor(Protocol):
    """The part of ``tidegate.processor.processor.PartitionProcessor`` that framing uses."""

    def definition_of(self, feed_id: FeedId) -> FeedDefinition: ...
    def is_active(self, feed_id: FeedId) -> bool: ...
    def refuse(self, feed_id: FeedId, error: FeedError, result: StepResult) -> None: ...
    def forget(self, feed_id: FeedId, result: StepResult) -> None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """The schemas whose ids a feed's rows wait for. ``url`` is the registry's, and may hold a password."""

    feed_id: FeedId
    epoch: FeedEpoch
    url: str = field(repr=False)
    schemas: Sequence[SubjectSchema]


#: The answer to a feed's ``Wanted``: ids to frame its rows with, or the error that the feed fails with.
#: ``None`` says that the feed is being removed, so nobody needs its rows.
Answer: TypeAlias = Mapping[SubjectSchema, int] | FeedError | None


class Framing:
    """Frames the rows of one partition's steps: puts schema ids before their encoded keys and values.

    ``ask`` is called by the loop, all other methods in the thread of the steps.
    """

    def __init__(self, processor: FeedProcessor, schema_ids: SchemaIds) -> None:
        self._processor = processor
        self._schema_ids = schema_ids

    def frame_known(self, result: StepResult) -> list[Wanted]:
        """Frame the rows of each feed whose ids are known. Returns the schemas that other feeds wait for.

        For a feed that failed within the step no id is waited for, since the whole batch would wait. Its rows
        from before the failure are left out: no checkpoint names the feed any more, so no marker covers them.
        """
        wanted: list[Wanted] = []
        for feed_id, rows in list(result.unframed.items()):
            if not rows:
                continue
            definition = self._processor.definition_of(feed_id)
            try:
                schemas = schemas_of(rows)
            except Exception as error:
                self._processor.refuse(feed_id, feed_error(error), result)
                continue
            url = definition.options.confluent_schema_registry
            ids = self._schema_ids.known(url, schemas)
            if ids is None and not self._processor.is_active(feed_id):
                del result.unframed[feed_id]
            elif ids is None:
                wanted.append(Wanted(feed_id, definition.epoch, url, schemas))
            else:
                self.settle(feed_id, ids, result)
        return wanted

    async def ask(self, wanted: Wanted) -> Answer:
        """Ask the registry for the ids, and wait without limit; cancel the task to give up.

        Returns the ids, or the registry's refusal. An exception that nobody foresaw counts as a refusal (U1).
        """
        try:
            return await self._schema_ids.ids(wanted.url, wanted.feed_id, wanted.schemas)
        except Exception as refusal:
            return feed_error(refusal)

    def settle(self, feed_id: FeedId, answer: Answer, result: StepResult) -> None:
        """Make records from a feed's rows, with the ids of ``answer``.

        If the answer is an error, fail the feed. If it is ``None``, the feed is being removed: forget the
        feed, and leave its rows out.
        """
        if answer is None:
            self._processor.forget(feed_id, result)
        elif isinstance(answer, FeedError):
            self._processor.refuse(feed_id, answer, result)
        else:
            result.records_of(feed_id).extend(frame(result.unframed.pop(feed_id), answer))
