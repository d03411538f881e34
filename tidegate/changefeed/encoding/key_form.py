"""The forms that the keys of JSON records have."""

from __future__ import annotations

import enum


class KeyForm(enum.Enum):
    """The form of a key's columns in a record, each shown for the key ``a = 1``."""

    ARRAY = "array"
    """``[1]``, in index order."""
    OBJECT = "object"
    """``{"a": 1}``, so that a consumer that sees the key alone knows the columns; sorted by name."""
    SINK_OBJECT = "sink object"
    """An object by which a sink finds its row: equal values print alike, and text that is not UTF-8 is
    refused."""

    @property
    def is_object(self) -> bool:
        """Whether keys are JSON objects."""
        return self is not KeyForm.ARRAY
