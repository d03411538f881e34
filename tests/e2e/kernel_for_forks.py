"""Compiles the kernel when this module is imported. Forks of the process then have the kernel, as they have
the modules of the process.

To compile it takes a worker 0.16 s of processor time. Here a single thread does it, and no other thread is
left, because a fork has only the thread that forks.
"""

from __future__ import annotations

from unittest.mock import patch

import wasmtime

from tidegate.kernel.artefact import compiled


def _compile_in_this_thread() -> None:
    config = wasmtime.Config()
    config.parallel_compilation = False
    engine = wasmtime.Engine(config)
    with patch.object(wasmtime, "Engine", lambda: engine):
        compiled()


_compile_in_this_thread()
