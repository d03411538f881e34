"""The compiled kernel: the file in this package, and what wasmtime makes of it, once in a process."""

from __future__ import annotations

import atexit
import logging
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wasmtime import Engine, Module

#: The place of the artefact, also in an archive of modules from which Spark's executors import them.
PATH: Final = files("tidegate.kernel") / "kernel.wasm"
#: The artefact's hash, as `make kernel` wrote it. A file with another hash is not run.
HASH_PATH: Final = files("tidegate.kernel") / "kernel.wasm.sha256"
#: The most bytes of an instance's memory. No plan and no batch needs so much: a kernel that needs more has a
#: defect, and traps.
MEMORY_BYTES_MAX: Final = 1 << 30
#: An instance whose memory has grown beyond this is given up after its batch, for memory does not shrink.
MEMORY_BYTES_KEPT: Final = 256 << 20

_log: Final = logging.getLogger(__name__)


@cache
def compiled() -> tuple[Engine, Module] | None:
    """Return the engine and the module. If this process has none, log one line and return ``None``.

    Compiling takes about 0.15 s, so the result is not kept for the next process.
    """
    try:
        import wasmtime
    except (ImportError, OSError) as error:  # OSError: its library is not for this machine
        _tell_absence(f"wasmtime cannot be imported: {error}")
        return None
    code = PATH.read_bytes()
    expected = HASH_PATH.read_text().split()[0]
    if sha256(code).hexdigest() != expected:
        _tell_absence(f"{PATH.name} is not the file whose hash stands in {HASH_PATH.name}")
        return None
    try:
        engine = wasmtime.Engine()
        module = wasmtime.Module(engine, code)
    except wasmtime.WasmtimeError as error:
        _tell_absence(f"wasmtime does not compile it here: {error}")
        return None
    # Otherwise they are freed after the interpreter has taken wasmtime itself apart: that prints a traceback.
    atexit.register(engine.close)
    atexit.register(module.close)
    return engine, module


def _tell_absence(cause: str) -> None:
    _log.warning("the kernel is not used, everything runs in Python: %s", cause)
