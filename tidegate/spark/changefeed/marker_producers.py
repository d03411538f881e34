"""Who writes a feed's markers, step M3 of docs/delivery.md: the query's own cluster, or that of the sink."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeAlias

from tidegate.client.kafka.transaction import GivenUpError, Record, TransactionalProducer
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import DeliveryError, RecordRefused, RetryError, SinkHeld, TidegateError

#: So long a batch waits for another cluster, if that has answered the last time.
_PATIENCE_S: Final = 10.0
#: Before a transaction that has failed there is begun again by a new producer.
_AGAIN_S: Final = 5.0

#: Makes the records of one transaction, by the thread that writes them. Raises ``RetryError``.
Marking: TypeAlias = Callable[[], Sequence[Record]]

_log = logging.getLogger("tidegate.spark")


def _unchecked(_: TransactionalProducer) -> None:
    """Nobody knows of another cluster."""


class MarkerProducer(Protocol):
    """Writes one feed's markers, one after the other."""

    def get_ready(self) -> bool:
        """Fence earlier writers where that is still to be done; whether it can write now.

        Raises ``RecordRefused`` when a topic takes no marker, and so does `write`.
        """

    @property
    def held(self) -> str:
        """Why nothing can be written, where the sink's address means another cluster; else empty."""

    @property
    def is_proved(self) -> bool:
        """Whether progress was persisted since it has fenced earlier writers; `prove` says so (M2b)."""

    def prove(self) -> None:
        """Progress was persisted just now."""

    def write(self, marking: Marking, done: Callable[[], None]) -> None:
        """Write a marker; ``done`` is called when it is committed, maybe by a later `get_ready`.

        What fails is not called done, though it may be committed; a marker that is as high has to be written.
        """

    def close(self) -> None:
        """Write nothing more."""


class OwnMarkerProducer:
    """Markers on the query's own cluster, by the producer of the progress. It is waited for."""

    is_proved: Final = True
    held: Final = ""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def get_ready(self) -> bool:
        """It is."""
        return True

    def prove(self) -> None:
        """One producer writes both: who is fenced writes neither."""

    def write(self, marking: Marking, done: Callable[[], None]) -> None:
        """See ``MarkerProducer``. Raises ``DeliveryError`` when fenced, and what the marking raises."""
        self._producer.commit(marking(), insist=False)
        done()

    def close(self) -> None:
        """The producer is not ours."""


class OtherMarkerProducer:
    """Markers on another cluster, by a thread of the feed: batches do not wait while that cluster is away.

    Whatever fails there costs a producer, which ``new_producer`` makes; it is opened by the thread (M2a).
    Before the first one the thread shuts out who writes by the id of versions before (M2d).
    ``check`` raises ``SinkHeld`` for one that talks to another cluster than that of the feed's topics (M2c);
    ``held`` is its sentence while it does.
    """

    def __init__(
        self,
        name: str,
        new_producer: Callable[[str], TransactionalProducer],
        ids: MarkerIds,
        check: Callable[[TransactionalProducer], None] = _unchecked,
    ) -> None:
        self._check = check
        self.held = ""
        self._is_open = False
        self._name = name
        self._new_producer = new_producer
        self._ids = ids
        self._is_former_out = False  # whoever wrote markers with the id of before
        self._former: TransactionalProducer | None = None  # shuts them out
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"markers of {name}")
        self._producer: TransactionalProducer | None = None
        self._work: Future[object] | None = None
        self._done: Callable[[], None] | None = None
        self._patient = True
        self._open_at = 0.0
        self.is_proved = False

    def get_ready(self) -> bool:
        """See ``MarkerProducer``."""
        if not self._has_finished():
            return False
        if self._producer is None and time.monotonic() >= self._open_at:
            self.is_proved = False
            try:
                if not self._is_former_out:
                    self._former = self._new_producer(self._ids.former)
                self._producer = self._new_producer(self._ids.present)
            except RetryError as error:  # no entry allows the cluster, or a secret of its login is missing
                self.held = str(error)
                self._fail(error)
                return False
            self._begin(partial(self._open, self._producer, self._former))
        return self._has_finished() and self._producer is not None

    def prove(self) -> None:
        """See ``MarkerProducer``."""
        self.is_proved = True

    def write(self, marking: Marking, done: Callable[[], None]) -> None:
        """See ``MarkerProducer``; only when it is ready."""
        assert self._producer is not None
        self._done = done
        self._begin(partial(self._commit, self._producer, marking))
        self._has_finished()

    def close(self) -> None:
        """See ``MarkerProducer``. What was begun is left for the next writer to abort."""
        for producer in (self._former, self._producer):
            if producer is not None:
                producer.give_up()
        self._let_go()
        self._thread.shutdown(wait=False)

    def _open(self, producer: TransactionalProducer, former: TransactionalProducer | None) -> None:
        self._is_open = False
        if former is not None:
            self._check(former)
            former.open()
            self._check(former)  # it may have been another cluster that answered
            self._is_former_out = True
        self._check(producer)  # before another cluster hears of the transactional id
        producer.open()
        self._is_open = True

    def _commit(self, producer: TransactionalProducer, marking: Marking) -> None:
        self._check(producer)  # before the ends are asked for, too
        try:
            producer.commit_once(marking())
        except RecordRefused:
            self._check(producer)  # another cluster may have refused it
            raise

    def _begin(self, work: Callable[[], object]) -> None:
        self._work = self._thread.submit(work)
        if self._patient:
            with suppress(TimeoutError, TidegateError, GivenUpError):
                self._work.result(_PATIENCE_S)
            self._patient = self._work.done()

    def _has_finished(self) -> bool:
        """Whether nothing is under way; takes in how it ended."""
        if self._work is None:
            return True
        if not self._work.done():
            return False
        work, self._work = self._work, None
        done, self._done = self._done, None
        try:
            work.result()
        except SinkHeld as error:
            self.held = str(error)
            self._fail(error)
        except RetryError as away:
            if not self._is_open:
                self._fail(away)
                return True
            _log.warning("A marker of feed %s is written later: %s", self._name, away)
        except RecordRefused:
            raise
        except DeliveryError as error:
            self._fail(error)
        else:
            self._patient = True
            self.held = ""
            self._close_former()
            if done is not None:
                done()
        return True

    def _fail(self, error: TidegateError) -> None:
        _log.warning(
            "A marker of feed %s was not taken by its cluster, and is written again by a new producer: %s",
            self._name,
            error,
        )
        self._let_go()
        self._open_at = time.monotonic() + _AGAIN_S

    def _let_go(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            self._thread.submit(producer.close)
        self._close_former()

    def _close_former(self) -> None:
        former, self._former = self._former, None
        if former is not None:
            self._thread.submit(former.close)
