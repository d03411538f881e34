"""The call with which each delivery report of ``confluent_kafka``, and each other function that ``poll``
calls, has to begin.

The client raises a fatal error of its producer in the middle of ``poll`` or ``flush``, and goes on to call
delivery reports with that exception set. Python code that runs while an exception is set fails in odd places:
a call of C raises ``SystemError``, an attribute of a base class is "missing". What a report has to note would
be lost.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

#: Clears the exception that is set, if one is, in 0.05 us. ``poll`` or ``flush`` then raises ``SystemError``
#: instead, and each later call of the producer says what the fatal error was.
begin_report: Final[Callable[[], None]] = ctypes.PYFUNCTYPE(None)(("PyErr_Clear", ctypes.pythonapi))
