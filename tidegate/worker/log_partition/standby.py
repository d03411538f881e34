"""Standby: local copies of partitions that other workers have, so that taking one over reads little.

Every ``standby_refresh_ms`` the copy of each partition that is not held here is brought to the present end of
its changelogs, with committed records only. This fences no owner. So a copy has each table as it was at some
moment, and these moments differ. A worker that opens the partition reads on to an end that is final (O1, O2
of docs/protocols/opening-a-partition.md), and compares digests. A copy is open only while it is brought up to
date.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from tidegate.errors import TidegateError
from tidegate.worker.process.settings import Settings
from tidegate.worker.runtime import Runtime
from tidegate.worker.state.changelog import Changelog, ChangelogReader
from tidegate.worker.state.store import LocalStore, OpenStore

#: For so many seconds after ``pause`` no copy is opened. A worker that is ending has ended by then.
_QUIET_S: Final = 10.0
_YIELD_S: Final = 5.0  # the longest wait of ``pause`` for an open copy

_log = structlog.get_logger("tidegate.standby")


class Standby:
    """Refreshes the copies of partitions that are not held here, one by one, in the background.

    ``is_held`` says whether this worker holds a partition.
    """

    def __init__(
        self, settings: Settings, runtime: Runtime, open_store: OpenStore, is_held: Callable[[int], bool]
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._open_store = open_store
        self._is_held = is_held
        self._changelogs = tuple(
            Changelog(table, topic, runtime.topology.topic_ids[topic])
            for table, topic in runtime.topics.changelogs().items()
        )
        self._reader: ChangelogReader | None = None
        #: Held while a copy is open.
        self._at_work = threading.Lock()
        self._quiet_until = time.monotonic()
        runtime.machine.background(self._refresh, "standby")

    def yielded(self) -> None:
        """Wait until no copy is open here of a partition that this worker holds now. Blocks."""
        self._abandon()
        with self._at_work:
            pass

    def pause(self) -> None:
        """Open no copy for a while, and wait until none is open. Blocks for a few seconds at most.

        A copy may still be open at the return, if its reader waits for Kafka.
        """
        self._quiet_until = time.monotonic() + _QUIET_S
        self._abandon()
        if self._at_work.acquire(timeout=_YIELD_S):
            self._at_work.release()

    def _refresh(self) -> None:
        while True:
            time.sleep(self._settings.standby_refresh_ms / 1000)
            for partition in range(self._runtime.topology.partitions):
                with self._at_work:
                    if self._may_open(partition):
                        self._bring_up(partition)

    def _may_open(self, partition: int) -> bool:
        return time.monotonic() >= self._quiet_until and not self._is_held(partition)

    def _bring_up(self, partition: int) -> None:
        """Read one copy to the present end. An error is logged; the partition's next owner handles it.

        Whatever the error is, the copy is closed, and the other copies are refreshed.
        """
        try:
            copy = self._open_store(self._runtime.directory.partition(partition))
        except Exception as error:
            _log.warning("a standby copy cannot be opened", partition=partition, cause=str(error))
            return
        try:
            self._catch_up(copy, partition)
        except TidegateError as error:
            _log.warning("a standby copy is not up to date", partition=partition, cause=str(error))
        except Exception as error:
            _log.error("a standby copy is not up to date", partition=partition, exc_info=error)
        finally:
            try:
                copy.close()
            except Exception as error:  # such as a full disk, which does not take what was written
                _log.warning("a standby copy cannot be closed", partition=partition, cause=str(error))

    def _catch_up(self, copy: LocalStore, partition: int) -> None:
        reader = ChangelogReader(self._settings, self._changelogs, partition, self._runtime.machine)
        self._reader = reader
        try:
            if self._may_open(partition):  # again: ``yielded`` may have come before there was a reader
                _log.info("standby copy refreshed", partition=partition, records=reader.catch_up(copy))
        finally:
            self._reader = None
            reader.close()

    def _abandon(self) -> None:
        reader = self._reader
        if reader is not None:
            reader.abandon()
