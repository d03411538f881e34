"""Ends the worker when going on could acknowledge records whose effects are not durable.

An exception is not enough. Streams acknowledge the event that raised it, services restart agents after the
failed event, and a failed service can hang in its shutdown. So the process ends at once, and the next one
starts from the durable state (docs/protocols/batches.md).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeAlias

import structlog

from tidegate.errors import TidegateError

#: Exit statuses: after a fatal error while running, and after a refusal to start.
EXIT_FATAL: Final = 70
EXIT_REFUSED: Final = 1

#: The last call of a process. It takes the error, if one is the reason, and the exit status.
Leave: TypeAlias = Callable[[BaseException | None, int], NoReturn]

_ending = threading.Lock()
_log = structlog.get_logger("tidegate.worker")


def end_process(error: BaseException, status: int = EXIT_FATAL) -> NoReturn:
    """Log why, and end this process at once, without another commit or flush to Kafka.

    Faust is not told that an event is done.
    """
    with _ending:  # if several threads fail, only the first one logs its reason
        try:
            trace = None if isinstance(error, TidegateError) else error
            _log.critical("the worker ends", reason=str(error) or repr(error), exc_info=trace)
        finally:
            _leave(error, status)


def leave_process(why: str) -> NoReturn:
    """End this process with status 0, even if a thread waits for the broker and cannot be interrupted.

    This is right only where nothing is left to finish and nothing can be lost: before a worker has begun to
    read, or once all of its partitions are released.
    """
    _log.info(why)
    _leave(None, 0)


@contextmanager
def leaving_by(leave: Leave) -> Iterator[None]:
    """Have workers end by ``leave`` within this context: in a simulation several workers share a process."""
    global _leave  # noqa: PLW0603 - there is one end of a process, as there is one process
    former, _leave = _leave, leave
    try:
        yield
    finally:
        _leave = former


def _exit(_: BaseException | None, status: int) -> NoReturn:
    try:
        logging.shutdown()
        sys.stderr.flush()
        sys.stdout.flush()
    finally:
        os._exit(status)


_leave: Leave = _exit


def guarded_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Run ``work`` as a task of the running loop. An exception that leaves it ends the process.

    Without the guard the exception would stay in the task until somebody awaits it, which may never happen.
    """
    return asyncio.create_task(_guard(work), name=name)


async def _guard(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        end_process(error)
