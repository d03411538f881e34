"""The pauses between attempts that fail."""

from __future__ import annotations

from typing import Final

_FIRST_S: Final = 0.5
_MAX_S: Final = 10.0


class BackOff:
    """The pauses between attempts: half a second at first, then twice as long each time, 10 s at most."""

    def __init__(self) -> None:
        self._next_s = _FIRST_S

    def failed(self) -> float:
        """Note one more failure. Returns the seconds to wait before the next attempt."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, _MAX_S)
        return pause_s

    def succeeded(self) -> None:
        """Note a success: the pauses begin anew."""
        self._next_s = _FIRST_S
