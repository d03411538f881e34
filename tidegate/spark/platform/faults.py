"""A task's faults in the form in which its answer tells the driver.

After an exception Spark would run the task again without a pause, and end the query in its own words.
"""

from __future__ import annotations

import json

from tidegate import errors
from tidegate.errors import FatalError, TidegateError


def fault_to_bytes(fault: TidegateError) -> bytes:
    """Return the stored form: the class and the sentence."""
    return json.dumps([type(fault).__name__, str(fault)]).encode()


def read_fault(stored: bytes) -> TidegateError:
    """Return the same fault; a ``FatalError`` with the same sentence when its class is not in the error
    tree.
    """
    name, sentence = json.loads(stored)
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TidegateError):
        return kind(sentence)
    return FatalError(sentence)
