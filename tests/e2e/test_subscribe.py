"""SUBSCRIBE beside a live store, with workers and subscribers that are killed: every state is one of the
store's."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.true_states import TrueStates
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import LiveSubscription, subscribe
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe import ConsumerState, SubscriptionBatch, TableContents
from tidegate.subscribe.updates.update import RowValues

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_STATEMENTS: Final = {
    "diffs": "SUBSCRIBE weather WITH (PROGRESS)",
    "upsert": "SUBSCRIBE flights ENVELOPE UPSERT (KEY (carrier, flight, time_hour)) WITH (PROGRESS)",
    "debezium": "SUBSCRIBE flights ENVELOPE DEBEZIUM (KEY (carrier, flight, time_hour)) WITH (PROGRESS)",
}
#: How many states each consumer stores while the store writes: before the worker is killed, and in all.
_BEFORE_KILL: Final = 3
_IN_ALL: Final = 6
_LIFE_S: Final = (0.5, 4.0)


class Consumer:
    """A consumer of one statement, in a thread: it dies now and then, and goes on from what it has stored."""

    def __init__(self, load: LiveLoad, statement: str, seed: int) -> None:
        self._load = load
        self._statement = statement
        self._random = Random(seed)
        self._stop = threading.Event()
        self._fault: BaseException | None = None
        self.columns: tuple[str, ...] = ()
        self.token = ""
        self.rows: list[RowValues] = []
        #: Each frontier that it has stored, with the table's rows then.
        self.states: list[tuple[Timestamp, list[RowValues]]] = []
        self.lives = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def frontier(self) -> Timestamp:
        """The frontier below which everything is stored."""
        return self.states[-1][0] if self.states else Timestamp(0)

    def has_passed(self, time: Timestamp) -> bool:
        """Whether it has stored a state behind ``time``. Raises what has ended it."""
        if self._fault is not None:
            raise self._fault
        return self.frontier > time

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join(60)
        assert self._fault is None, self._fault

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._live_once()
        except BaseException as fault:  # the test raises it
            self._fault = fault

    def _live_once(self) -> None:
        self.lives += 1
        dies_at = time.monotonic() + self._random.uniform(*_LIFE_S)
        with self._open() as subscription:
            shape = subscription.plan.shape
            state = ConsumerState(subscription.header, resumed=bool(self.token))
            contents = TableContents(len(shape.key), len(shape.rest))
            self._restore(contents, state, subscription)
            for row in subscription.opening:
                assert state.push(row) is None
            while not self._stop.is_set():
                batch = subscription.next(0.2)
                if batch is not None and time.monotonic() > dies_at and self.lives < 4:
                    return  # the batch was not stored: it has to come again
                if batch is not None:
                    self._store(state, contents, batch)

    def _open(self) -> LiveSubscription:
        load = self._load
        connection = KafkaConnection(load.environment["TIDEGATE_BOOTSTRAP_SERVERS"], timeout_s=60)
        return subscribe(
            self._statement, connection, app_id=load.app_id, topic_prefix=load.prefix, token=self.token
        )

    def _restore(self, contents: TableContents, state: ConsumerState, subscription: LiveSubscription) -> None:
        self.columns = (*state.names[: len(subscription.plan.shape.key)], *_values(subscription, state))
        contents.restore(self.rows)

    def _store(self, state: ConsumerState, contents: TableContents, batch: SubscriptionBatch) -> None:
        for row in batch.rows:
            released = state.push(row)
            if released is not None:
                contents.fold(released)
        assert not contents.unknown_keys
        self.rows = contents.rows()
        self.token = str(batch.token or "")
        self.states.append((batch.frontier, self.rows))


def _values(subscription: LiveSubscription, state: ConsumerState) -> tuple[str, ...]:
    shape = subscription.plan.shape
    after = state.names[len(state.names) - len(shape.rest) :]
    return tuple(name.removeprefix("after_") for name in after)


def _all_have(consumers: Mapping[str, Consumer], states: int) -> bool:
    return all(
        len(consumer.states) >= states and consumer.has_passed(ZERO) for consumer in consumers.values()
    )


def _all_died(consumers: Mapping[str, Consumer]) -> bool:
    return all(consumer.lives > 1 for consumer in consumers.values())


def _all_passed(consumers: Mapping[str, Consumer], time: Timestamp) -> bool:
    return all(consumer.has_passed(time) for consumer in consumers.values())


@pytest.mark.always
def test_every_state_of_a_subscriber_is_one_of_the_store(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    seed = 18
    print("seed", seed)
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=seed, store={"split_every_ms": 2_000}, rows_per_s=200
    ) as load:
        worker = load.start_worker("w0")
        load.create_feed("updated, diff, resolved, initial_scan='yes'")
        consumers = {
            name: Consumer(load, statement, seed + at)
            for at, (name, statement) in enumerate(_STATEMENTS.items())
        }
        load.wait_until(lambda: _all_have(consumers, _BEFORE_KILL), "the first states")
        worker.kill()  # what it had in flight comes again
        load.start_worker("w1")
        load.wait_until(lambda: _all_have(consumers, _IN_ALL), "states behind the kill")
        load.wait_until(lambda: _all_died(consumers), "the death of each subscriber")
        report = load.finish()
        load.wait_until(lambda: _all_passed(consumers, report.covered), f"subscribers at {report.covered}")
        for consumer in consumers.values():
            consumer.stop()
        expected = list(load.expected())
        for name, consumer in consumers.items():
            table = "weather" if name == "diffs" else "flights"
            truth = TrueStates(expected, f"{topic_prefix}{table}")
            for frontier, rows in consumer.states:
                assert rows == truth.rows(frontier, consumer.columns), f"{name} at {frontier}"
