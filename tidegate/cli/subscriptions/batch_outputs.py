"""The outputs of `tidegate subscribe`: lines of JSON, CSV, a live table, or another command."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.cli.printing import echo, exact_lines
from tidegate.cli.subscriptions.figures_text import figures_text
from tidegate.client.shown_text import shown_text
from tidegate.client.subscribe import DeliveredBatch, LiveSubscription
from tidegate.errors import InputError
from tidegate.subscribe import ConsumerState, TableContents
from tidegate.subscribe.text.row_text import JsonLines, csv_line, plain_text
from tidegate.subscribe.updates.update import RowValues

_SHOWN_ROWS: Final = 30
_REFRESH_S: Final = 0.2


class BatchOutput(Protocol):
    """A place where a subscription's batches go, in their order: a terminal, a stream, or a command."""

    def shown(self) -> AbstractContextManager[object]:
        """Return a context manager. It is entered as long as batches may come."""

    def deliver(self, batch: DeliveredBatch) -> None:
        """Deliver a batch. Raises ``InputError`` where that fails: then it counts as not delivered."""

    def idle(self) -> None:
        """Show that no batch has come for a moment."""


class JsonOutput:
    """A line of JSON for each row, on standard output."""

    def __init__(self, subscription: LiveSubscription) -> None:
        self._lines = JsonLines(subscription.header)
        self._print(subscription.opening)

    def shown(self) -> AbstractContextManager[object]:
        """See ``BatchOutput``."""
        return nullcontext()

    def deliver(self, batch: DeliveredBatch) -> None:
        """See ``BatchOutput``."""
        self._print(batch.rows)

    def idle(self) -> None:
        """See ``BatchOutput``."""

    def _print(self, rows: Sequence[RowValues]) -> None:
        for row in rows:
            echo(self._lines.line(row))


class CsvOutput:
    """CSV on standard output, with a line of names first. On a terminal control characters are escaped."""

    def __init__(self, subscription: LiveSubscription) -> None:
        self._echo = exact_lines()
        self._echo(csv_line(subscription.header))
        self._print(subscription.opening)

    def shown(self) -> AbstractContextManager[object]:
        """See ``BatchOutput``."""
        return nullcontext()

    def deliver(self, batch: DeliveredBatch) -> None:
        """See ``BatchOutput``."""
        self._print(batch.rows)

    def idle(self) -> None:
        """See ``BatchOutput``."""

    def _print(self, rows: Sequence[RowValues]) -> None:
        for row in rows:
            self._echo(csv_line(row))


class TableOutput:
    """The table as it is at the frontier, on a terminal. The subscription has to be WITH (PROGRESS).

    Without a snapshot it has the rows that came since the subscription began.
    """

    def __init__(self, subscription: LiveSubscription) -> None:
        shape = subscription.plan.shape
        key_width, value_width = len(shape.key), len(shape.rest)
        self._subscription = subscription
        self._state = ConsumerState(subscription.header)
        self._widths = key_width, value_width
        self._contents = TableContents(*self._widths, with_debts=not subscription.plan.snapshot)
        self._columns = _shown_columns(self._state.names, key_width, value_width)
        for row in subscription.opening:
            self._state.push(row)
        self._begun = False
        self._refresh_at = 0.0
        self._live = Live(self._screen(), console=Console(), auto_refresh=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """See ``BatchOutput``. The screen that stays shows the last batch, even if that came just before."""
        with self._live:
            try:
                yield
            finally:
                self.idle()

    def deliver(self, batch: DeliveredBatch) -> None:
        """See ``BatchOutput``.

        If history was lost and a new snapshot begins, the table is emptied first. If lost changes were
        skipped instead, a batch may retract a row that was never given.
        """
        if batch.loss is not None:
            if batch.is_snapshot or batch.is_partial:
                self._contents = TableContents(*self._widths)
            else:
                self._contents.with_debts = True
        for row in batch.rows:
            released = self._state.push(row)
            if released is not None:
                self._contents.fold(released)
        self._begun = True
        if time.monotonic() >= self._refresh_at:
            self.idle()

    def idle(self) -> None:
        """See ``BatchOutput``."""
        self._refresh_at = time.monotonic() + _REFRESH_S
        self._live.update(self._screen(), refresh=True)

    def _screen(self) -> Group:
        rows = self._contents.rows()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in self._columns:
            table.add_column(Text(shown_text(column)))
        for row in rows[:_SHOWN_ROWS]:
            table.add_row(*(Text("" if value is None else shown_text(plain_text(value))) for value in row))
        told = f"reading the snapshot as of {self._subscription.as_of}"
        if self._begun:
            told = figures_text(self._subscription.figures(), len(rows), _SHOWN_ROWS)
        return Group(Text(told, style="bold"), table)


class CommandOutput:
    """Runs a command for each batch that has rows: they are lines of JSON on its standard input.

    Its environment has the batch's token as TIDEGATE_TOKEN, empty where the batch has none.
    """

    def __init__(self, subscription: LiveSubscription, command: str) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise InputError(f"The command of --exec cannot be read ({error}): {command!r:.200}.") from None
        if not self._arguments:
            raise InputError("The command of --exec is empty.")
        self._lines = JsonLines(subscription.header)

    def shown(self) -> AbstractContextManager[object]:
        """See ``BatchOutput``."""
        return nullcontext()

    def deliver(self, batch: DeliveredBatch) -> None:
        """See ``BatchOutput``."""
        if not batch.rows:
            return
        text = "".join(f"{self._lines.line(row)}\n" for row in batch.rows)
        environment = {**os.environ, "TIDEGATE_TOKEN": str(batch.token or "")}
        try:
            # The user's own command, without a shell.
            ended = subprocess.run(self._arguments, input=text.encode(), env=environment, check=False)  # noqa: S603
        except OSError as error:
            raise InputError(f"The command {self._arguments[0]} of --exec cannot be run: {error}.") from None
        if ended.returncode:
            raise InputError(
                f"The command of --exec ended with status {ended.returncode}: its batch counts as not"
                " delivered."
            )

    def idle(self) -> None:
        """See ``BatchOutput``."""


def _shown_columns(names: tuple[str, ...], key_width: int, value_width: int) -> tuple[str, ...]:
    if not key_width:
        return names
    after = names[len(names) - value_width :] if value_width else ()
    return (*names[:key_width], *(name.removeprefix("after_") for name in after))
