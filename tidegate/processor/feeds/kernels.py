"""The interface that opens kernels: native code that a processor uses where it can (docs/kernel.md)."""

from __future__ import annotations

from typing import Protocol

from tidegate.processor.feeds.log_kernel import LogKernel
from tidegate.processor.feeds.row_kernel import RowKernel


class Kernel(RowKernel, LogKernel, Protocol):
    """A kernel of one log partition."""


class Kernels(Protocol):
    """Opens kernels, one for each log partition. It can be sent to other processes."""

    @property
    def checks(self) -> bool:
        """Whether Python makes every record as well, and both are compared."""

    def open(self) -> Kernel | None:
        """Return a new kernel; ``None`` where this process has none."""
