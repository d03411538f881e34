"""What went wrong in a task, as the driver is told: by an answer, of which Spark makes nothing.

An exception would have Spark run the task again at once, and end the query in its own words.
"""

from __future__ import annotations

import json

from tidegate import errors
from tidegate.errors import FatalError, TidegateError


def fault_to_bytes(fault: TidegateError) -> bytes:
    """The stored form: the class and the sentence."""
    return json.dumps([type(fault).__name__, str(fault)]).encode()


def read_fault(stored: bytes) -> TidegateError:
    """The same fault, or a ``FatalError`` of the same words for a class that is not in the error tree."""
    name, sentence = json.loads(stored)
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TidegateError):
        return kind(sentence)
    return FatalError(sentence)
