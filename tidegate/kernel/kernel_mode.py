"""Whether the kernel is used: ``TIDEGATE_KERNEL``."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from typing import Final

from tidegate.errors import SettingsError

VARIABLE = "TIDEGATE_KERNEL"


class KernelMode(enum.Enum):
    """The use of the kernel in this process: off, on, or compared with Python."""

    OFF = "off"
    """The kernel takes nothing: everything runs in Python."""
    ON = "on"
    """The kernel takes the records that it knows, and Python takes all others. Without a kernel Python takes
    everything."""
    CHECK = "check"
    """The kernel takes the records that it knows, and Python takes all. A difference ends the process."""


#: The mode of workers and Spark queries for which none is set.
DEFAULT: Final = KernelMode.ON


def kernel_mode(environment: Mapping[str, str] = os.environ) -> KernelMode:
    """Return the mode that an environment asks for, ``DEFAULT`` if it names none.

    Raises ``SettingsError`` for a word that names no mode.
    """
    word = environment.get(VARIABLE, "").strip().lower() or DEFAULT.value
    try:
        return KernelMode(word)
    except ValueError:
        words = ", ".join(mode.value for mode in KernelMode)
        raise SettingsError(f"{VARIABLE} is {word[:40]!r}; it may be one of {words}") from None
