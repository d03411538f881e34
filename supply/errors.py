"""The errors of pins and of the bill of materials.

TidegateError
└── SupplyError  a tool failed, or a file of pins cannot be read
"""

from __future__ import annotations

from tidegate.errors import TidegateError


class SupplyError(TidegateError):
    """A pin cannot be written or read."""
