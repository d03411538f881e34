"""The kernel of one log partition: what a processor calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.errors import StateError
from tidegate.kernel.artefact import compiled
from tidegate.kernel.instance import Instance, RawOutput
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.message import read_output, write_versions
from tidegate.kernel.plan import Plan, write_plan
from tidegate.kernel.traps import TRAPS, Traps
from tidegate.processor.feeds.row_kernel import FeedRecords, TablePlan, Taken
from tidegate.ranges.version import Version

#: The most bytes of keys and values in one call, times the lanes that write them, unless a single version has
#: more.
CALL_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class WasmKernels:
    """Opens kernels in ``mode``. It holds nothing, so that it can be sent to a task of Spark."""

    mode: KernelMode

    @property
    def checks(self) -> bool:
        """Whether Python makes every record as well, and both are compared."""
        return self.mode is KernelMode.CHECK

    def open(self) -> PartitionKernel | None:
        """Return a new kernel; ``None`` where this process has none."""
        return None if compiled() is None else PartitionKernel(TRAPS)


def kernels_for(mode: KernelMode) -> WasmKernels | None:
    """Return what opens kernels; ``None`` where they are off."""
    return None if mode is KernelMode.OFF else WasmKernels(mode)


class PartitionKernel:
    """A kernel that is made anew after a trap, and told its plan again."""

    def __init__(self, traps: Traps) -> None:
        self._traps = traps
        self._instance: Instance | None = None
        self._plan = Plan(b"", ())
        self._feeds = 0

    def plan(self, tables: Sequence[TablePlan], feeds: int) -> bool:
        """Take what is wanted from here on. Return whether there is anything that the kernel can write."""
        self._plan, self._feeds, self._instance = Plan(b"", ()), feeds, None
        try:
            self._plan = write_plan(tables)
        except Exception as error:  # a defect of ours: Python writes everything, until the next plan
            self._traps.trapped(error)
        return bool(self._plan.lanes)

    def take(self, versions: Sequence[Version]) -> Taken | None:
        """Make records of versions. ``None``: Python has to take the whole batch."""
        if self._traps.is_off or not versions:
            return None
        taken = Taken([FeedRecords([], []) for _ in range(self._feeds)], [], {})
        try:
            for first, part in _parts(versions, CALL_BYTES_MAX // max(1, len(self._plan.lanes))):
                output = self._run(write_versions(part), len(part))
                read_output(output, part, first, self._plan.lanes, taken)
        except Exception as error:  # a trap, or a kernel that does not do what its interface says
            self._instance = None
            self._traps.trapped(error)
            return None
        self._traps.passed()
        return taken

    def _run(self, message: bytes, count: int) -> RawOutput:
        if self._instance is None:
            found = compiled()
            if found is None:
                raise StateError("this process has no kernel")
            self._instance = Instance(*found)
            self._instance.plan(self._plan.data)
        return self._instance.rows(message, count)


def _parts(versions: Sequence[Version], most_bytes: int) -> Iterator[tuple[int, Sequence[Version]]]:
    """Yield versions in parts of so many bytes, each with the place of its first one."""
    first = size = 0
    for number, version in enumerate(versions):
        size += len(version.key) + len(version.value)
        if size > most_bytes and number > first:
            yield first, versions[first:number]
            first, size = number, len(version.key) + len(version.value)
    yield first, versions[first:] if first else versions
