"""Takes a written step in Python and by the kernel, and compares all that the two say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any, Final

from tidegate.errors import StateError
from tidegate.kernel.artefact import compiled
from tidegate.kernel.followed_records import FOLLOWED
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import WasmKernels
from tidegate.kernel.traps import TRAPS
from tidegate.processor.batch import StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import StepBroke
from tidegate.replay.written_step import StepRecord, WrittenStep

#: How many characters of a value that differs are shown.
_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class StepComparison:
    """The comparison of one step, as Python and as the kernel takes it.

    The kernel followed ``followed`` of its ``records``; Python takes the others in both runs. ``rows`` is
    how many rows Python's run gave. ``traps`` is how often the kernel broke; Python then took its batch.
    ``broke`` says why the step broke in Python's run; it is empty if that run did not break. ``difference``
    says where the runs differ; it is empty if they do not.
    """

    records: int
    followed: int
    rows: int
    traps: int
    broke: str
    difference: str


def compare(step: WrittenStep) -> StepComparison:
    """Take the step twice, and compare.

    Raises ``StateError`` if the state cannot be read, if a feed of the partition waits for its start, and if
    this process has no kernel.
    """
    if compiled() is None:
        raise StateError(
            "There is no kernel in this process, so there is nothing to compare: install tidegate with its "
            "extra worker or spark"
        )
    followed, traps = FOLLOWED.count, TRAPS.count
    python = list(_outcomes(step, ProcessorConfig(kernel=None)))
    kernel = list(_outcomes(step, ProcessorConfig(kernel=WasmKernels(KernelMode.ON))))
    broke = python[-1] if python and isinstance(python[-1], str) else ""
    return StepComparison(
        sum(record.offset >= step.first for record in step.records),
        FOLLOWED.count - followed,
        sum(_rows(outcome) for outcome in python if isinstance(outcome, StepResult)),
        TRAPS.count - traps,
        broke,
        next(_differences(python, kernel), ""),
    )


def _outcomes(step: WrittenStep, config: ProcessorConfig) -> Iterator[StepResult | str]:
    """Yield the result of each portion of the step. If a portion breaks, yield why it broke, and end."""
    processor = step.processor(config)
    if processor.held:
        raise StateError(
            f"Log partition {step.partition} waits for the start of feed "
            f"{', '.join(sorted(processor.held_for))}, and takes no records until it is known"
        )
    again = [record for record in step.records if record.offset < step.first]
    for records in (again, step.records[len(again) :]):
        left: Sequence[StepRecord] = records
        while left or processor.ready:
            try:
                result = processor.step_some(left)
            except StepBroke as broken:
                yield str(broken)
                return
            left = left[result.taken :]
            yield result


def _rows(result: StepResult) -> int:
    return sum(map(len, result.outputs.values())) + sum(map(len, result.unframed.values()))


def _differences(python: Sequence[StepResult | str], kernel: Sequence[StepResult | str]) -> Iterator[str]:
    for number, (reference, ours) in enumerate(zip_longest(python, kernel), start=1):
        if reference == ours:
            continue
        if not isinstance(reference, StepResult) or not isinstance(ours, StepResult):
            yield _told(f"portion {number}", reference, ours)
            continue
        for each in fields(StepResult):
            if each.compare:
                name = f"{each.name} of portion {number}"
                yield from _difference(name, getattr(reference, each.name), getattr(ours, each.name))


def _difference(name: str, reference: Any, ours: Any) -> Iterator[str]:
    """Yield where two values of one field differ: down to the feed and the number of the item if they have
    these."""
    if reference == ours:
        return
    if isinstance(reference, dict) and isinstance(ours, dict):
        for key in [*reference, *(key for key in ours if key not in reference)]:
            yield from _difference(f"{name}, feed {key}", reference.get(key, ()), ours.get(key, ()))
    elif isinstance(reference, Sequence) and isinstance(ours, Sequence) and not isinstance(reference, str):
        for number, (one, other) in enumerate(zip_longest(reference, ours)):
            if one != other:
                yield _told(f"{name}, number {number}", one, other)
                return
    else:
        yield _told(name, reference, ours)


def _told(what: str, reference: object, ours: object) -> str:
    return f"{what}: {repr(ours)[:_SHOWN]} by the kernel, {repr(reference)[:_SHOWN]} by Python"
