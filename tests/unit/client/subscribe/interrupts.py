"""Ctrl-C at any moment: raises ``KeyboardInterrupt`` where Python runs handlers of signals."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final, Self

from stack.places import CHECKOUT

_WHERE: Final = tuple(str(CHECKOUT / "tidegate" / each) for each in ("subscribe", "client/subscribe"))


class Interrupt:
    """Interrupts what runs in a ``with``, once, at the ``at``-th moment within the subscription's modules.

    A moment is where Python looks for signals: a function begins or a generator goes on, or a call of what is
    written in C has come back.
    """

    def __init__(self, at: int) -> None:
        self._left = at

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in {"call", "c_return"} or not frame.f_code.co_filename.startswith(_WHERE):
            return
        self._left -= 1
        if self._left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
