"""``tidegate subscribe``: prints the batches of a SUBSCRIBE statement, or gives them to a command."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from tidegate.cli.kafka_options import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.printing import echo
from tidegate.cli.subscriptions.batch_outputs import (
    BatchOutput,
    CommandOutput,
    CsvOutput,
    JsonOutput,
    TableOutput,
)
from tidegate.cli.subscriptions.spill_options import spill_options
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import HistoryPolicy, LiveSubscription, SpillSettings, subscribe
from tidegate.errors import InputError
from tidegate.subscribe import Dialect, parse_subscribe

_JSON, _CSV, _TABLE = "json", "csv", "table"
_IDLE_S: Final = 0.25


@click.command("subscribe")
@click.argument("statement")
@click.option("--feed", default="", metavar="ID", help="The feed to read, where several have the table.")
@click.option(
    "--format",
    "form",
    type=click.Choice([_TABLE, _JSON, _CSV]),
    help="How rows are shown. [default: table on a terminal, else json]",
)
@click.option("--token", default="", help="Go on after the batch that had this token; not with a table.")
@click.option(
    "--key-table",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep rows by key in this directory: --token needs it where a feed's records lack the row before.",
)
@click.option("--batches", type=click.IntRange(min=1), help="Stop after so many batches.")
@click.option(
    "--exec",
    "command",
    metavar="COMMAND",
    help="Run a command for each batch that has rows. It gets lines of JSON on standard input, and the"
    " batch's token as TIDEGATE_TOKEN.",
)
@click.option(
    "--dialect",
    type=click.Choice([each.value for each in Dialect]),
    default=Dialect.TIDEGATE.value,
    show_default=True,
    help="The dialect of the output: tidegate's, or Materialize's.",
)
@click.option(
    "--snapshot-chunks",
    is_flag=True,
    help="Give a snapshot in chunks that have room in memory. Only the last one has a token.",
)
@spill_options
@click.option(
    "--on-history-lost",
    type=click.Choice([each.value for each in HistoryPolicy]),
    default=HistoryPolicy.STALL.value,
    show_default=True,
    help="When records are deleted before they are read: end, begin with a new snapshot, or skip them.",
)
@topic_prefix_option
@app_id_option
@kafka_options
def subscribe_command(
    connection: KafkaConnection,
    app_id: str,
    topic_prefix: str,
    statement: str,
    feed: str,
    form: str | None,
    token: str,
    key_table: Path | None,
    batches: int | None,
    command: str | None,
    dialect: str,
    snapshot_chunks: bool,
    spill: SpillSettings,
    on_history_lost: str,
) -> None:
    """Print the rows of a SUBSCRIBE statement, batch by batch. Each batch is complete up to one time.

    Example: tidegate subscribe "SUBSCRIBE flights ENVELOPE UPSERT (KEY (id))"

    Ctrl-C ends the command. It then prints the token of its last batch, with which a later run goes on.
    """
    form = form or (_TABLE if sys.stdout.isatty() and command is None else _JSON)
    shows_table = form == _TABLE and command is None
    if shows_table and token:
        raise InputError(
            "A table is shown whole, so it begins with a snapshot, and --token leaves that out. Nothing was "
            "read or changed. Add --format json to go on after the token, or leave --token out."
        )
    parsed = parse_subscribe(statement)
    if shows_table:
        parsed = replace(parsed, progress=True)  # the output that makes a table of rows needs it
    with subscribe(
        parsed,
        connection,
        app_id=app_id,
        topic_prefix=topic_prefix,
        feed=feed,
        token=token,
        dialect=Dialect(dialect),
        key_table=key_table,
        spill=spill,
        on_history_lost=on_history_lost,
        snapshot_chunks=snapshot_chunks,
    ) as subscription:
        _deliver(subscription, _output(subscription, form, command), batches)


def _output(subscription: LiveSubscription, form: str, command: str | None) -> BatchOutput:
    if command is not None:
        return CommandOutput(subscription, command)
    if form == _TABLE:
        return TableOutput(subscription)
    return CsvOutput(subscription) if form == _CSV else JsonOutput(subscription)


def _deliver(subscription: LiveSubscription, output: BatchOutput, batches: int | None) -> None:
    """Deliver batches until the subscription ends, but at most ``batches`` of them. Afterwards, even after an
    error or an interrupt, print the token of the last one, if it had one."""
    left, token = batches, ""
    try:
        with output.shown():
            while left != 0 and not subscription.ended:
                batch = subscription.next(_IDLE_S)
                if batch is None:
                    output.idle()
                    continue
                if batch.loss is not None:
                    echo(str(batch.loss), err=True)
                output.deliver(batch)
                subscription.settle(batch)
                if not batch.is_partial:  # until the last chunk, the token before is valid
                    token = str(batch.token or "")
                left = None if left is None else left - 1
    except KeyboardInterrupt:
        pass  # the user's way to end it
    finally:
        if token:
            echo(f"To go on after the last batch: --token {token}", err=True)
