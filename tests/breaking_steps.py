"""Exceptions that nobody foresaw, planted into steps. Certain log records trigger them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from weakref import WeakSet
from zlib import crc32

import pytest

from tidegate.errors import MalformedEntry
from tidegate.processor.batch import LogRecord, StateChange, StepResult
from tidegate.processor.log_step import LogStep
from tidegate.processor.moving.range_entries import RangeEntries, RangeEntry
from tidegate.processor.processor_state import ProcessorState
from tidegate.raftlog.entry import Command, Entry
from tidegate.ranges.range_state import RangeState


class SomeOffsets:
    """A ``share`` of all offsets, until ``none`` is set."""

    def __init__(self, seed: int, share: float) -> None:
        self._seed = seed
        self._share = share
        self.none = False

    def __contains__(self, offset: object) -> bool:
        drawn = crc32(f"{self._seed}:{offset}".encode()) / 2**32
        return drawn < self._share and not self.none


def _raise(offset: int) -> None:
    raise ArithmeticError(f"nobody foresaw offset {offset}")


@contextmanager
def broken_by_records(offsets: Container[int]) -> Iterator[None]:
    """Let each of these log records break its step, after it has changed the state."""
    original = LogStep.apply

    def apply(self: LogStep, record: LogRecord, entry: Entry | MalformedEntry, result: StepResult) -> None:
        original(self, record, entry, result)
        if record.offset in offsets and not isinstance(entry, MalformedEntry):
            _raise(record.offset)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogStep, "apply", apply)
        yield


@contextmanager
def broken_by_commands(offsets: Container[int]) -> Iterator[None]:
    """Let those of these log records that are commands break their steps, where they are applied."""
    original = RangeEntries._apply

    def apply(self: RangeEntries, state: RangeState, entry: RangeEntry, record: LogRecord) -> None:
        original(self, state, entry, record)
        if record.offset in offsets and isinstance(entry, Command):
            _raise(record.offset)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RangeEntries, "_apply", apply)
        yield


@contextmanager
def broken_at_the_end(offsets: Container[int]) -> Iterator[None]:
    """Let a step with one of these log records break when it is stored. The error does not say which record
    it was."""
    original_apply, original_freeze = LogStep.apply, ProcessorState.freeze
    spoilt = WeakSet[ProcessorState]()

    def apply(self: LogStep, record: LogRecord, entry: Entry | MalformedEntry, result: StepResult) -> None:
        original_apply(self, record, entry, result)
        if record.offset in offsets and not isinstance(entry, MalformedEntry):
            spoilt.add(self._state)

    def freeze(self: ProcessorState) -> list[StateChange]:
        if self in spoilt:
            _raise(self.position.offset)
        return original_freeze(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogStep, "apply", apply)
        patched.setattr(ProcessorState, "freeze", freeze)
        yield
