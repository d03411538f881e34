"""The rows that feeds have when nothing is interrupted: those of the reference engine over the whole log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from tests.contract.comparison import KeyOnPartition, rows_by_key
from tests.stored_state.store_at_rest import StoreAtRest
from tests.stored_state.stored import Stored
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.processor.reference import Emitted, ReferenceEngine

_BATCH = 10
_MOST_BEATS = 200


def uninterrupted(
    stored: Stored, feeds: Sequence[Activate], schema_id: Callable[[SubjectSchema], int]
) -> Mapping[KeyOnPartition, Sequence[Emitted]]:
    """The rows of each key, in their order.

    The feeds are there from the first record of the log on. The store answers the engine's own scans behind
    the log, since the answers that stand in it are for the scans of others.
    """
    engine, store = ReferenceEngine(len(stored.log), feeds, schema_id=schema_id), StoreAtRest(stored)
    done = [0] * len(store.log)
    answered = beats = 0
    last = max(version.timestamp for version in stored.history)
    while any(engine.high_water(feed.feed_id) < last for feed in feeds):
        batches = []
        for partition, records in enumerate(store.log):
            new, done[partition] = records[done[partition] :], len(records)
            batches.append([new[first : first + _BATCH] for first in range(0, len(new), _BATCH)])
        for turn in zip_longest(*batches):
            for partition, batch in enumerate(turn):
                engine.step(partition, batch or ())
        for request in engine.requests[answered:]:
            store.answer(request)
        answered, beats = len(engine.requests), beats + 1
        assert beats < _MOST_BEATS, [engine.high_water(feed.feed_id) for feed in feeds]
        store.beat()
    return rows_by_key(engine.output)


def no_schema(schema: SubjectSchema) -> int:
    """Stand for the registry of feeds that need none."""
    raise AssertionError(f"no feed here has {schema}")
