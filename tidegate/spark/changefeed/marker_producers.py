"""Writes a feed's markers (step M3 of docs/protocols/markers.md), on the query's own cluster or on the
sink's."""

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
from tidegate.errors import (
    DeliveryError,
    RecordRefused,
    RetryError,
    SettingsError,
    SinkHeld,
    TidegateError,
)

#: The time for which a batch waits for another cluster, if that answered the last time; seconds.
_PATIENCE_S: Final = 10.0
#: The time to wait, after a transaction on another cluster failed, before a new producer begins it again.
_AGAIN_S: Final = 5.0

#: Makes the records of one transaction, in the thread that writes them. Raises ``RetryError``.
Marking: TypeAlias = Callable[[], Sequence[Record]]

_log = logging.getLogger("tidegate.spark")


def _unchecked(_: TransactionalProducer) -> None:
    """Check nothing: no other cluster is known."""


class MarkerProducer(Protocol):
    """Writes one feed's markers, one after the other."""

    def get_ready(self) -> bool:
        """Fence earlier writers if that is still to be done; return whether a marker can be written now.

        Raises ``RecordRefused`` when a topic takes no marker, as `write` does.
        """

    @property
    def held(self) -> str:
        """The reason why nothing can be written, else empty.

        Examples: the sink's address means another cluster, the operator's entry for the cluster cannot be
        used, or the cluster does not answer.
        """

    @property
    def is_proved(self) -> bool:
        """Whether progress was persisted after this producer fenced earlier writers (M2b). See `prove`."""

    def prove(self) -> None:
        """Note that progress was persisted just now."""

    def write(self, marking: Marking, done: Callable[[], None]) -> None:
        """Write a marker. ``done`` is called once it is committed, maybe by a later `get_ready`.

        After a failure ``done`` is not called, though the marker may be committed: a marker that is at least
        as high has to be written then.
        """

    def close(self) -> None:
        """Write nothing more."""


class OwnMarkerProducer:
    """Writes markers on the query's own cluster, by the producer of the feed's progress.

    Batches wait for it.
    """

    is_proved: Final = True
    held: Final = ""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def get_ready(self) -> bool:
        """Return true: the producer is open."""
        return True

    def prove(self) -> None:
        """Do nothing: one producer writes progress and markers, so a fenced one writes neither."""

    def write(self, marking: Marking, done: Callable[[], None]) -> None:
        """Write a marker as ``MarkerProducer`` says.

        Raises ``DeliveryError`` when fenced. Raises what ``marking`` raises, which makes the records.
        """
        self._producer.commit(marking(), insist=False)
        done()

    def close(self) -> None:
        """Do nothing: the producer belongs to the feed's progress."""


class OtherMarkerProducer:
    """Writes markers on another cluster, in a thread of the feed: batches do not wait while that cluster is
    away.

    ``new_producer`` makes a producer, which the thread opens (M2a). A producer that fails is replaced. Before
    it opens the first one, the thread fences the transactional id of earlier versions (M2d). ``check`` raises
    ``SinkHeld`` for a producer that talks to another cluster than that of the feed's topics (M2c). Both may
    raise ``SettingsError``, which holds the markers as well. ``held`` says why no producer is open, until one
    is open, and why the last marker failed, until one is written.
    """

    def __init__(
        self,
        name: str,
        new_producer: Callable[[str], TransactionalProducer],
        ids: MarkerIds,
        check: Callable[[TransactionalProducer], None] = _unchecked,
    ) -> None:
        self._check = check
        self._unopened = ""  # why no producer is open, or that the cluster does not answer
        self._unwritten = ""  # why the last marker failed
        self._is_open = False
        self._name = name
        self._new_producer = new_producer
        self._ids = ids
        self._is_former_out = False  # whether the transactional id of earlier versions is fenced
        self._former: TransactionalProducer | None = None  # fences that id
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"markers of {name}")
        self._producer: TransactionalProducer | None = None
        self._work: Future[object] | None = None
        self._done: Callable[[], None] | None = None
        self._patient = True
        self._open_at = 0.0
        self.is_proved = False

    @property
    def held(self) -> str:
        """See ``MarkerProducer``."""
        return self._unopened or self._unwritten

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
            # no entry of the operator allows the cluster, or its login has no secret or no usable file
            except (RetryError, SettingsError) as error:
                self._unopened = str(error)
                self._fail(error)
                return False
            self._begin(partial(self._open, self._producer, self._former))
        return self._has_finished() and self._producer is not None

    def prove(self) -> None:
        """See ``MarkerProducer``."""
        self.is_proved = True

    def write(self, marking: Marking, done: Callable[[], None]) -> None:
        """See ``MarkerProducer``. Call it only after ``get_ready`` has returned true."""
        assert self._producer is not None
        self._done = done
        self._begin(partial(self._commit, self._producer, marking))
        self._has_finished()

    def close(self) -> None:
        """See ``MarkerProducer``. The next writer aborts an open transaction."""
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
            self._check(former)  # another cluster may have answered
            self._is_former_out = True
        self._check(producer)  # before another cluster is told the transactional id
        producer.open()
        self._is_open = True

    def _commit(self, producer: TransactionalProducer, marking: Marking) -> None:
        self._check(producer)  # also before the marking asks where partitions end
        try:
            producer.commit_once(marking())
        except RecordRefused:
            self._check(producer)  # another cluster may be the one that refused
            raise

    def _begin(self, work: Callable[[], object]) -> None:
        self._work = self._thread.submit(work)
        if self._patient:
            with suppress(TimeoutError, TidegateError, GivenUpError):
                self._work.result(_PATIENCE_S)
            self._patient = self._work.done() and self._work.exception() is None
            if not self._work.done():
                self._unopened = f"its markers wait: its cluster has not answered for {_PATIENCE_S:.0f} s"

    def _has_finished(self) -> bool:
        """Return whether nothing is under way; take in how the last work ended."""
        if self._work is None:
            return True
        if not self._work.done():
            return False
        work, self._work = self._work, None
        done, self._done = self._done, None
        try:
            work.result()
        except (SinkHeld, SettingsError) as error:
            self._unopened = str(error)
            self._fail(error)
        except RecordRefused:
            raise
        except (RetryError, DeliveryError) as error:
            why = f"its markers wait: {error}"
            self._unopened, self._unwritten = ("", why) if self._is_open else (why, self._unwritten)
            if self._is_open and isinstance(error, RetryError):
                _log.warning("A marker of feed %s is written later: %s", self._name, error)
            else:
                self._fail(error)
        else:
            self._patient = True
            self._unopened = ""
            self._close_former()
            if done is not None:
                self._unwritten = ""
                done()
        finally:
            del work  # its exception names this frame: the two would keep the producer alive
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
