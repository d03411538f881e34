"""Step 2a of docs/delivery.md: the ids of schemas into the rows of a step.

Ids that are known are put in at once. The rest is asked for by the loop, and put in when it has come; until
then nothing of the step is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import FeedError, SchemaRejected
from tidegate.processor.batch import StepResult
from tidegate.processor.containment import feed_error
from tidegate.processor.feeds.framing import frame, schemas_of
from tidegate.worker.process.schema_ids import SchemaIds


class FeedProcessor(Protocol):
    """What framing needs of ``tidegate.processor.processor.PartitionProcessor``."""

    def definition_of(self, feed_id: FeedId) -> FeedDefinition: ...
    def is_active(self, feed_id: FeedId) -> bool: ...
    def refuse(self, feed_id: FeedId, error: FeedError, result: StepResult) -> None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """The ids that a feed's rows wait for, of the registry at ``url``, which may hold a password."""

    feed_id: FeedId
    epoch: FeedEpoch
    url: str = field(repr=False)
    schemas: Sequence[SubjectSchema]


#: What becomes of a feed's rows: they are framed with these ids, or the feed fails with this error.
Answer: TypeAlias = Mapping[SubjectSchema, int] | FeedError


class Framing:
    """Frames the rows of one partition's steps. All but ``ask`` is the steps' thread's."""

    def __init__(self, processor: FeedProcessor, schema_ids: SchemaIds) -> None:
        self._processor = processor
        self._schema_ids = schema_ids

    def frame_known(self, result: StepResult) -> list[Wanted]:
        """Frame the feeds whose ids are known; returns what the others wait for.

        A feed that failed within the step waits for nothing: its rows before the fault are left out, for no
        checkpoint names it, and the others would have to wait with it.
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
        """Wait for the ids, however long that takes. Cancel it to give up."""
        try:
            return await self._schema_ids.ids(wanted.url, wanted.feed_id, wanted.schemas)
        except SchemaRejected as refusal:
            return refusal

    def settle(self, feed_id: FeedId, answer: Answer, result: StepResult) -> None:
        """Make records of a feed's rows; or fail the feed, and take its rows out of the step's result."""
        if isinstance(answer, FeedError):
            self._processor.refuse(feed_id, answer, result)
        else:
            result.outputs.setdefault(feed_id, []).extend(frame(result.unframed.pop(feed_id), answer))
