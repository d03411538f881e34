"""An instance of the kernel: its memory, and the calls into it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tidegate.errors import StateError
from tidegate.kernel.artefact import MEMORY_BYTES_MAX

if TYPE_CHECKING:
    from wasmtime import Engine, Memory, Module

#: The version of the interface in `kernel/src/lib.rs`.
_INTERFACE: Final = 7
#: The code that `rows` and `follow` return instead of a place if the rows are more than an output may have.
_TOO_LARGE: Final = 1
_SUMMARY: Final = Struct("<7I")
_NAMED: Final = Struct("<5I")
_FOLLOWED: Final = Struct("<6I")
_RANGE_ID_BYTES: Final = 8
_TXN_BYTES: Final = 20
_NUMBER_BYTES: Final = 8
_PLACE_BYTES: Final = 8
_RECORD_BYTES: Final = 24
_HIGH_BYTES: Final = 24
_VERSION_BYTES: Final = 64


class RawOutput(NamedTuple):
    """The rows of a batch, as bytes of the kernel's memory (`kernel/src/row.rs`)."""

    records: bytes
    text: bytes
    fates: bytes
    highs: bytes


class RawNamed(NamedTuple):
    """The ranges and transactions that log records name, as bytes of the kernel's memory
    (`kernel/src/log_batch.rs`).
    """

    records: int
    range_ids: bytes
    txns: bytes


class RawFollowed(NamedTuple):
    """The result of following a batch, as bytes of the kernel's memory (`kernel/src/log_batch.rs`)."""

    taken: int
    state: bytes
    walls: bytes
    places: bytes
    rows: RawOutput


class NoRoomForInstance(Exception):
    """The system gives this process no memory, or no addresses, for one more instance."""


class OutputTooLarge(Exception):
    """The rows of a call are more than the kernel may give in one output. The instance can still be used."""


class Instance:
    """A kernel with a memory of its own. After a trap it cannot be used any more."""

    def __init__(self, engine: Engine, module: Module) -> None:
        """Make an instance. Raises ``NoRoomForInstance`` if the system has no room for its memory."""
        import wasmtime

        store = wasmtime.Store(engine)
        store.set_limits(memory_size=MEMORY_BYTES_MAX)
        try:
            exports = wasmtime.Instance(store, module, []).exports(store)
        except wasmtime.WasmtimeError as error:  # the kernel imports nothing and starts nothing
            raise NoRoomForInstance(" ".join(str(error).split())) from error
        self._store = store
        self._free = weakref.finalize(self, store.close)  # at the process's end too: see `artefact.compiled`
        self._memory = cast("Memory", exports["memory"])
        self._interface, self._input, self._plan, self._rows, self._read, self._follow, self._versions = (
            cast("Callable[..., Any]", exports[name])
            for name in ("interface", "input", "plan", "rows", "read", "follow", "versions")
        )
        self._ran_out = cast("Callable[..., Any]", exports["ran_out"])
        if self._interface(store) != _INTERFACE:
            raise StateError("the kernel has another interface than its loader: run `make kernel`")

    def close(self) -> None:
        """Give the instance's memory back. The instance must not be used any more.

        An instance to which nothing refers any more is closed too. But after a trap the traceback and the
        instance refer to each other. Then only the garbage collector frees the instance. It sees a few small
        objects there, and not the memory of up to 1 GiB, so it may come late.
        """
        self._free()

    @property
    def memory_bytes(self) -> int:
        """The bytes of its memory, which only grows."""
        return self._memory.data_len(self._store)

    @property
    def ran_out(self) -> bool:
        """Whether the kernel ran out of memory: a trap is no defect then. This is known after a trap too."""
        return bool(self._ran_out(self._store))

    def plan(self, plan: bytes) -> None:
        """Give the kernel the plan that holds from here on."""
        self._put(plan)
        if self._plan(self._store) != 1:
            raise StateError("the kernel does not take its plan, which is a defect: please report it")

    def rows(self, message: bytes, count: int) -> RawOutput:
        """Give the kernel the ``count`` versions of a message; return the rows that it makes of them.

        Raises ``OutputTooLarge`` if the rows are more than one output may have.
        """
        self._put(message)
        at = self._rows(self._store, count)
        if at == _TOO_LARGE:
            raise OutputTooLarge
        if not at:
            raise StateError("the kernel does not take its batch, which is a defect: please report it")
        return self._output(at, count)

    def read(self, message: bytes, count: int) -> RawNamed:
        """Give the kernel the ``count`` log records of a message; return what they name.

        The result counts only the records before the first one that the kernel cannot read.
        """
        self._put(message)
        at = self._read(self._store, count)
        if not at:
            raise StateError("the kernel does not take its records, which is a defect: please report it")
        records, ranges, range_count, txns, txn_count = _NAMED.unpack(self._get(at, _NAMED.size))
        return RawNamed(
            records,
            self._get(ranges, range_count * _RANGE_ID_BYTES),
            self._get(txns, txn_count * _TXN_BYTES),
        )

    def follow(self, message: bytes) -> RawFollowed:
        """Have the kernel follow the records that it read last; return its result.

        ``message`` has the state that these records need. Raises ``OutputTooLarge`` if the rows are more than
        one output may have.
        """
        self._put(message)
        at = self._follow(self._store)
        if at == _TOO_LARGE:
            raise OutputTooLarge
        if not at:
            raise StateError("the kernel does not take its state, which is a defect: please report it")
        taken, state, state_count, walls, places, count = _FOLLOWED.unpack(self._get(at, _FOLLOWED.size))
        return RawFollowed(
            taken,
            self._get(state, state_count * _NUMBER_BYTES),
            self._get(walls, count * _NUMBER_BYTES),
            self._get(places, count * _PLACE_BYTES),
            self._output(at + _FOLLOWED.size, count),
        )

    def versions(self, count: int) -> bytes:
        """Return the ``count`` versions that were followed last (`kernel/src/log_batch.rs`)."""
        return self._get(self._versions(self._store), count * _VERSION_BYTES)

    def _output(self, at: int, count: int) -> RawOutput:
        """Return the output of ``count`` versions. Its summary is at the address ``at``."""
        records, record_count, text, text_size, fates, highs, high_count = _SUMMARY.unpack(
            self._get(at, _SUMMARY.size)
        )
        return RawOutput(
            self._get(records, record_count * _RECORD_BYTES),
            self._get(text, text_size),
            self._get(fates, count),
            self._get(highs, high_count * _HIGH_BYTES),
        )

    def _put(self, data: bytes) -> None:
        at = self._input(self._store, len(data))
        self._within(at, len(data))
        ctypes.memmove(self._base() + at, data, len(data))

    def _get(self, at: int, size: int) -> bytes:
        self._within(at, size)
        return ctypes.string_at(self._base() + at, size)

    def _within(self, at: int, size: int) -> None:
        """Require that bytes are in the kernel's memory: only then may this process touch them."""
        if at < 0 or at + size > self._memory.data_len(self._store):
            raise StateError("the kernel names bytes outside its memory, which is a defect: please report it")

    def _base(self) -> int:
        return ctypes.addressof(self._memory.data_ptr(self._store).contents)
