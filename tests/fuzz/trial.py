"""One input for one target, and whether all is as it should be."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time
from typing import Final

from tests.fuzz.target import Broken, Target

#: An input may take a second, and ten more for each megabyte: machines may be slow, or busy.
SECONDS: Final = 1.0
SECONDS_OF_A_MEGABYTE: Final = 10.0
#: A machine that is busy, or a collection of garbage, does not take its time from the same input three times.
_TIMES: Final = 3
_SHOWN_BYTES: Final = 200
#: An input that takes so much longer than it may is given up: it could take for ever.
_GIVEN_UP: Final = 20


class _GivenUp(BaseException):
    """An input takes too long. No target may catch it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input for which a target did not do what it should. ``signature`` is the same for inputs alike."""

    target: str
    data: bytes
    what: str
    signature: tuple[str, ...]

    def __str__(self) -> str:
        shown = self.data[:_SHOWN_BYTES].hex()
        rest = f"... ({len(self.data)} bytes)" if len(self.data) > _SHOWN_BYTES else ""
        return f"{self.target}: {self.what}\n  input in hex: {shown}{rest}"


def attempt(target: Target, data: bytes) -> Finding | None:
    """Give the target an input; what is not as it should be, or ``None``."""
    allowed = SECONDS + SECONDS_OF_A_MEGABYTE * len(data) / 1e6
    took = f"{len(data)} bytes took"
    try:
        with _given_up_after(_GIVEN_UP * allowed):
            taken, fault = _timed(target, data)
    except _GivenUp as given_up:
        path = _path(given_up)
        what = f"{took} more than {_GIVEN_UP * allowed:.0f} s of processor time, and were given up ({path})"
        return Finding(target.name, data, what, (target.name, "time"))
    if fault is not None:
        return fault
    for _ in range(_TIMES - 1):
        if taken <= allowed:
            return None
        taken = min(taken, _timed(target, data)[0])
    if taken <= allowed:
        return None
    what = f"{took} {taken:.1f} s of processor time, and {allowed:.1f} s are allowed"
    return Finding(target.name, data, what, (target.name, "time"))


@contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    """Raise ``_GivenUp`` in the main thread after so many seconds of processor time."""

    def give_up(*_: object) -> None:
        raise _GivenUp

    former = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def _timed(target: Target, data: bytes) -> tuple[float, Finding | None]:
    begin = process_time()
    fault = None
    try:
        target.run(data)
    except target.named as error:
        fault = _sentence_fault(target, data, error)
    except (Exception, SystemExit) as error:
        fault = _finding(target, data, error)
    return process_time() - begin, fault


def _sentence_fault(target: Target, data: bytes, error: Exception) -> Finding | None:
    """An error is shown, logged and stored: its sentence has bytes, and not too many."""
    try:
        size = len(str(error).encode())
    except UnicodeEncodeError as half:
        return _finding(target, data, half)
    if size <= target.sentence_bytes:
        return None
    kind = type(error).__name__
    what = f"the sentence of a {kind} has {size} bytes: {str(error)[:_SHOWN_BYTES]}..."
    return Finding(target.name, data, what, (target.name, "sentence", kind))


def _finding(target: Target, data: bytes, error: BaseException) -> Finding:
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}"
    sentence = ascii(str(error))[:1_000]
    # A promise is told apart by its words: all of them are raised at one place.
    signature = (target.name, kind, sentence[:40] if isinstance(error, Broken) else place)
    return Finding(target.name, data, f"{kind}: {sentence} ({_path(error)})", signature)


def _path(error: BaseException) -> str:
    """Return where an exception came from: the innermost places in the code."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[:-7:-1])
