"""The treatment of a kernel that traps: each trap is counted, the first one is logged, and after three in a
row the kernel rests."""

from __future__ import annotations

import logging
from typing import Final

IN_A_ROW_MAX: Final = 3
#: How many calls Python takes in a kernel's first rest, and in its longest one. Each rest is twice as long as
#: the one before.
FIRST_REST: Final = 1_000
LONGEST_REST: Final = 64_000

_log: Final = logging.getLogger(__name__)


class Traps:
    """Counts the traps of this process's kernels. Each kind of fault is told in the log once."""

    def __init__(self) -> None:
        self.count = 0
        self._told: set[str] = set()

    def trapped(self, cause: Exception) -> None:
        """Note that the kernel trapped at a batch. Python takes the batch."""
        self.count += 1
        self._tell(
            logging.ERROR,
            "the kernel broke at a batch, which Python took: %s: %s. It is a defect, please report it",
            type(cause).__name__,
            str(cause)[:2_000],
        )

    def rests(self) -> None:
        """Note that a kernel has broken ``IN_A_ROW_MAX`` times in a row, and rests."""
        self._tell(
            logging.ERROR,
            "the kernel of a log partition broke %s times in a row: Python takes the next %s batches of that "
            "partition, and then the kernel is tried again",
            IN_A_ROW_MAX,
            FIRST_REST,
        )

    def no_memory(self) -> None:
        """Note that a batch needed more memory than a kernel gets. Python takes the batch."""
        self._tell(
            logging.WARNING,
            "Python took a batch for which the kernel needs more memory than it gets. Rows or records are "
            "very long there",
        )

    def no_room(self, cause: Exception) -> None:
        """Note that there is no room for a partition's kernel. Python takes the partition's log."""
        self._tell(
            logging.WARNING,
            "Python takes the records of one or more log partitions: there is no room for their kernels. "
            "Each reserves 4 GiB of addresses and uses few of them. `ulimit -v` bounds what a process "
            "reserves: %s",
            str(cause)[:2_000],
        )

    def _tell(self, level: int, sentence: str, *about: object) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.log(level, sentence, *about)


class Rest:
    """The rests of one kernel: calls that Python takes after faults.

    Three faults in a row begin a rest, and each further fault begins another rest. So if the data of a log
    partition breaks its kernel, other partitions keep theirs, and this one tries its kernel again later.
    """

    def __init__(self) -> None:
        self._in_a_row = 0
        self._length = FIRST_REST
        self._left = 0

    def is_over(self) -> bool:
        """Return whether the next call may go to the kernel. If not, the rest becomes one call shorter."""
        if not self._left:
            return True
        self._left -= 1
        return False

    def passed(self) -> None:
        """Note that a batch went well."""
        self._in_a_row, self._length = 0, FIRST_REST

    def failed(self) -> bool:
        """Note a fault. Return whether a rest begins."""
        self._in_a_row += 1
        if self._in_a_row < IN_A_ROW_MAX:
            return False
        self._left, self._length = self._length, min(2 * self._length, LONGEST_REST)
        return True


#: The traps of this process.
TRAPS: Final = Traps()
