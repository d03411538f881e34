"""What delivery reports of ``confluent_kafka`` do first, and whatever else it calls amid ``poll``.

The client raises a fatal error of its producer amid ``poll`` or ``flush``, and goes on to call delivery
reports with that exception set. Python code that runs so fails in odd places: a call of C raises
``SystemError``, an attribute of a base class is "missing". What a report had to note would be lost.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

#: Forgets the exception that is set, if one is: 0.05 us. ``poll`` or ``flush`` raises ``SystemError`` in its
#: place, and each later call of the producer says what the fatal error was.
begin_report: Final[Callable[[], None]] = ctypes.PYFUNCTYPE(None)(("PyErr_Clear", ctypes.pythonapi))
