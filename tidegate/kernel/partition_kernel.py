"""The kernel of one log partition, with the functions that a processor calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.errors import StateError
from tidegate.kernel.artefact import MEMORY_BYTES_KEPT, compiled
from tidegate.kernel.followed_records import FOLLOWED
from tidegate.kernel.instance import Instance, NoRoomForInstance, OutputTooLarge
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.log_message import (
    read_followed,
    read_named,
    read_versions,
    write_records,
    write_state,
)
from tidegate.kernel.message import read_output, write_versions
from tidegate.kernel.plan import Plan, write_plan
from tidegate.kernel.traps import TRAPS, Rest, Traps
from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.log_kernel import Followed, LogState, Named
from tidegate.processor.feeds.row_kernel import TablePlan, Taken
from tidegate.ranges.version import Version

#: The most bytes of keys and values in one call, counted once for each lane that writes them. A call with a
#: single version may have more.
CALL_BYTES_MAX: Final = 16 << 20
#: The most bytes of rows that the calls for one batch may give. If a batch has more, Python makes its rows,
#: one feed after the other, with a bound for each feed. A single call gives at most 128 MiB (`OUTPUT_MAX` in
#: `kernel/src/row.rs`).
OUTPUT_BYTES_MAX: Final = 256 << 20
#: A plan by which the kernel writes nothing.
_NO_PLAN: Final = Plan(b"", (), previous=False, widest=0)


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
    """Return the object that opens kernels; ``None`` if ``mode`` is ``OFF``."""
    return None if mode is KernelMode.OFF else WasmKernels(mode)


class PartitionKernel:
    """The kernel of one log partition.

    Its instance is given up after a trap, and when its memory has grown beyond ``MEMORY_BYTES_KEPT``. The
    next call makes a new instance, and gives it the plan again.
    """

    def __init__(self, traps: Traps) -> None:
        self._traps = traps
        self._rest = Rest()
        self._instance: Instance | None = None
        self._plan = _NO_PLAN
        self._is_planned = False
        self._has_room = True  # as far as is known
        #: The message of the log records that were read last, and what they name.
        self._records = b""
        self._named = Named(0, (), (), ())
        #: The number of versions that were followed last.
        self._followed = 0

    def plan(self, tables: Sequence[TablePlan]) -> bool:
        """Take the plan that holds from here on. Return whether the kernel can write anything of it."""
        self._give_up()
        self._plan, self._is_planned = _NO_PLAN, False
        self._has_room = True  # other partitions may have ended, and left room
        try:
            self._plan = write_plan(tables)
            self._is_planned = True
        except Exception as error:  # a defect of ours: Python writes everything, until the next plan
            self._traps.trapped(error)
        return bool(self._plan.lanes)

    def make_records(self, versions: Sequence[Version]) -> Taken | None:
        """Make records of versions, and return them; ``None`` if Python has to take the whole batch."""
        if not (versions and self._may_take()):
            return None
        taken, size = Taken({}, [], {}), 0
        try:
            for first, part in _parts(versions, CALL_BYTES_MAX // max(1, self._plan.widest)):
                message = write_versions(part, with_previous=self._plan.previous)
                output = self._ready().rows(message, len(part))
                size += len(output.text)
                if size > OUTPUT_BYTES_MAX:
                    self._give_up_a_large_one()
                    return None
                walls = [version.timestamp[0] for version in part]
                read_output(output, walls, first, self._plan.lanes, taken)
        except Exception as error:  # a trap, or a kernel that does not do what its interface says
            self._broke(error)
            return None
        self._passed()
        return taken

    def read(self, records: Sequence[LogRecord]) -> Named | None:
        """Read the next log records, and return what they name; ``None`` if Python has to take them."""
        if not (self._is_planned and self._may_take()):
            return None
        try:
            most_bytes = CALL_BYTES_MAX // max(1, self._plan.widest)
            self._records, count = write_records(records, most_bytes)
            self._named = read_named(self._ready().read(self._records, count))
        except Exception as error:
            self._broke(error)
            return None
        return self._named

    def follow(self, state: LogState) -> Followed | None:
        """Follow the log records that were read last; return ``None`` if Python has to take them."""
        try:
            raw = self._ready().follow(write_state(state))
            followed = read_followed(raw, self._records, self._named, self._plan.lanes, Taken({}, [], {}))
            self._followed = len(followed.places)
        except Exception as error:
            self._broke(error)
            return None
        self._passed()
        FOLLOWED.count += followed.taken
        return followed

    def versions(self) -> list[Version] | None:
        """Return the versions that were followed last; ``None`` if Python has to read them in the records."""
        if self._instance is None:
            return None
        try:
            return read_versions(self._instance.versions(self._followed), self._records)
        except Exception as error:
            self._broke(error)
            return None

    def _passed(self) -> None:
        """Note that a batch went well."""
        self._rest.passed()
        self._give_up_a_large_one()

    def _give_up_a_large_one(self) -> None:
        """Give up an instance whose memory has grown too large."""
        if self._instance is not None and self._instance.memory_bytes > MEMORY_BYTES_KEPT:
            self._give_up()

    def _give_up(self) -> None:
        """Give up the instance, and free its memory now."""
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _may_take(self) -> bool:
        """Return whether the next call may go to the kernel."""
        return self._has_room and self._rest.is_over()

    def _broke(self, error: Exception) -> None:
        """Note that a call gave nothing: it asked for too much, or there was no room, or it is a defect."""
        if isinstance(error, OutputTooLarge):
            self._give_up_a_large_one()
            return
        ran_out = self._instance is not None and self._instance.ran_out
        self._give_up()
        if isinstance(error, NoRoomForInstance):
            self._has_room = False
            self._traps.no_room(error)
            return
        if ran_out:
            self._traps.no_memory()
        else:
            self._traps.trapped(error)
        if self._rest.failed():
            self._traps.rests()

    def _ready(self) -> Instance:
        """Return an instance that knows the plan; make it if there is none."""
        if self._instance is None:
            found = compiled()
            if found is None:
                raise StateError("this process has no kernel")
            self._instance = Instance(*found)
            self._instance.plan(self._plan.data)
        return self._instance


def _parts(versions: Sequence[Version], most_bytes: int) -> Iterator[tuple[int, Sequence[Version]]]:
    """Yield versions in parts of at most ``most_bytes``, each with the place of its first version.

    A part with a single version may have more bytes.
    """
    first = size = 0
    for number, version in enumerate(versions):
        added = version.size_bytes
        size += added
        if size > most_bytes and number > first:
            yield first, versions[first:number]
            first, size = number, added
    yield first, versions[first:] if first else versions
