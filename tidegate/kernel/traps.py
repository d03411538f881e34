"""Counts the kernel's traps in this process: three in a row switch it off."""

from __future__ import annotations

import logging
from typing import Final

IN_A_ROW_MAX: Final = 3

_log: Final = logging.getLogger(__name__)


class Traps:
    """Counts the traps of this process's kernels, and decides whether they are still used."""

    def __init__(self) -> None:
        self.count = 0
        self._in_a_row = 0
        self._without_room = False

    @property
    def is_off(self) -> bool:
        """Whether the kernel is switched off in this process."""
        return self._in_a_row >= IN_A_ROW_MAX

    def passed(self) -> None:
        """Take in that a batch went well."""
        if not self.is_off:
            self._in_a_row = 0

    def trapped(self, cause: Exception) -> None:
        """Take in that a batch trapped. Python takes it."""
        self.count += 1
        self._in_a_row += 1
        if self.count == 1:
            _log.error(
                "the kernel broke at a batch, which Python took: %s: %s. It is a defect, please report it",
                type(cause).__name__,
                str(cause)[:2_000],
            )
        if self._in_a_row == IN_A_ROW_MAX:
            _log.error("the kernel broke %s times in a row: it is not used any more", IN_A_ROW_MAX)

    def no_room(self, cause: Exception) -> None:
        """Take in that a partition gets no kernel, for lack of room. Python takes its log."""
        if not self._without_room:
            self._without_room = True
            _log.warning(
                "Python takes the records of one or more log partitions: there is no room for their kernels. "
                "Each reserves 4 GiB of addresses and uses few of them. `ulimit -v` bounds what a process "
                "reserves: %s",
                str(cause)[:2_000],
            )


#: Those of this process.
TRAPS: Final = Traps()
