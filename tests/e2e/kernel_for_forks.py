"""Compiles the kernel when it is imported: forks of the process have it then, as they have its modules.

To compile it takes a worker 0.16 s of processor time. Here one thread does it, and no other is left: a fork
has only the thread that forks.
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
