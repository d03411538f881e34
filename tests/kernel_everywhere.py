"""Runs every processor of the tests with the kernel, if ``TIDEGATE_KERNEL`` asks for it.

Without that variable, workers and Spark queries use the kernel, and tests of the step use Python, which is
the reference. ``TIDEGATE_KERNEL=check make test`` runs each test with both: a difference ends the step. A
test whose claim is about Python's own decoders has the mark ``python_step``, and is left out then.
"""

from __future__ import annotations

import os

from tidegate.kernel.kernel_mode import VARIABLE, KernelMode, kernel_mode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.config import ProcessorConfig


def use_kernel_of_environment() -> bool:
    """Have ``ProcessorConfig`` take the environment's kernel by default; return whether there is one."""
    mode = kernel_mode() if VARIABLE in os.environ else KernelMode.OFF
    if mode is KernelMode.OFF:
        return False
    *others, _ = ProcessorConfig.__init__.__defaults__ or ()
    ProcessorConfig.__init__.__defaults__ = (*others, kernels_for(mode))
    return True
