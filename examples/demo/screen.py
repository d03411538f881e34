"""The screen of a demo: a live screen in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.board import Board
from examples.demo.happenings import Kind
from tidegate.hlc import NANOS_PER_SECOND

_PLAIN_EVERY_S: Final = 5.0
_ROW_WIDTH: Final = 140
_SHOWN_RANGES: Final = 6


#: (range id, resolved lag in seconds), the worst first.
RangeLags: TypeAlias = list[tuple[int, float]]


class Screen:
    """Shows a board; ``refresh`` it several times a second."""

    def __init__(self, board: Board, seconds: float, range_lags: Callable[[], RangeLags]) -> None:
        self._board = board
        self._seconds = seconds
        self._range_lags = range_lags
        self._console = Console()
        self._began = time.monotonic()
        self._began_ns = time.time_ns()
        self._told = 0
        self._plain_due = self._began
        self._live = Live(console=self._console, refresh_per_second=4) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(Text(text), soft_wrap=True)

    def refresh(self, phase: str) -> None:
        """Show the board as it is now, below a line for each thing that happened since the last time."""
        self._tell_what_happened()
        rate = self._board.rows_per_second()
        if self._live is not None:
            self._live.update(self._render(phase, rate))
        elif time.monotonic() >= self._plain_due:
            self._plain_due = time.monotonic() + _PLAIN_EVERY_S
            self.say(self._line(phase, rate))

    def _tell_what_happened(self) -> None:
        """Print what happened, except splits and merges, which are many.

        The figures show their number and the last one.
        """
        new = self._board.happened[self._told :]
        self._told += len(new)
        for one in new:
            if one.kind is not Kind.RANGES:
                self.say(f"{(one.at_ns - self._began_ns) / NANOS_PER_SECOND:5.0f} s  {one.text}")

    def _line(self, phase: str, rate: float) -> str:
        board = self._board
        last = [lines[-1][:_ROW_WIDTH] for lines in (board.last_rows, board.last_markers) if lines]
        figures = (
            f"{time.monotonic() - self._began:5.0f} s  {phase}: {board.versions:,} versions committed, "
            f"{board.rows:,} rows out ({rate:,.0f}/s), {board.markers:,} markers, "
            f"resolved lag: feed {lag_text(board.lag_s)}, ranges {self._worst_ranges()}"
        )
        return " | ".join([figures, *last])

    def _render(self, phase: str, rate: float) -> Any:
        board = self._board
        elapsed = min(time.monotonic() - self._began, self._seconds)
        figures = Table.grid(padding=(0, 2))
        figures.add_row("phase", phase)
        figures.add_row(
            "source",
            f"{board.versions:,} versions, {board.committed:,} transactions committed, "
            f"{board.aborted:,} aborted, {board.abandoned:,} abandoned, {board.pushes:,} pushed",
        )
        figures.add_row("feed", f"{board.rows:,} rows, {rate:,.0f} rows/s, {board.markers:,} markers")
        figures.add_row("resolved lag", f"feed {lag_text(board.lag_s)}   ranges {self._worst_ranges()}")
        figures.add_row("markers wait for", self._awaited())
        if board.splits or board.merges:
            figures.add_row("ranges", self._moved())
        return Group(
            Panel(figures, title="tidegate demo"),
            ProgressBar(total=self._seconds, completed=elapsed),
            Panel(Text("\n".join(line[:_ROW_WIDTH] for line in board.last_rows)), title="last rows"),
            Panel(Text("\n".join(board.last_markers)), title="last markers"),
        )

    def _awaited(self) -> str:
        awaited = self._board.awaited_s()
        if not awaited:
            return "no abandoned transaction"
        return f"{len(awaited)} abandoned, the oldest for {awaited[0]:.0f} s"

    def _moved(self) -> str:
        board = self._board
        last = next((one.text for one in reversed(board.happened) if one.kind is Kind.RANGES), "")
        return f"{board.splits:,} splits, {board.merges:,} merges; the last one: {last or '-'}"

    def _worst_ranges(self) -> str:
        worst = self._range_lags()[:_SHOWN_RANGES]
        return "  ".join(f"r{number} {lag:.2f} s" for number, lag in worst) or "-"


def lag_text(lag_s: float | None) -> str:
    """Return a lag in seconds for people; ``None`` stands for one that is not known yet."""
    return "-" if lag_s is None else f"{lag_s:.2f} s"
