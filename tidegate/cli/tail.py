"""``tidegate tail``: rows and markers as they come."""

from __future__ import annotations

from itertools import islice

import click

from tidegate.cli.connecting import app_id_option, kafka_options
from tidegate.cli.reading import Asked, choose_reading, reading_options
from tidegate.client.connection import KafkaConnection
from tidegate.client.tail import TailFrom, line_of, tail_topics


@click.command()
@reading_options
@click.option(
    "--from",
    "begin",
    type=click.Choice([begin.value for begin in TailFrom]),
    default=None,
    help="Where to begin. [default: beginning; end with --follow]",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Stop after so many records.")
@app_id_option
@kafka_options
def tail(
    connection: KafkaConnection,
    app_id: str,
    asked: Asked,
    begin: str | None,
    follow: bool,
    limit: int | None,
) -> None:
    """Print rows and markers of output topics, one line each: topic[partition]@offset, and what it says."""
    chosen = choose_reading(connection, app_id, asked)
    start = TailFrom(begin or ("end" if follow else "beginning"))
    records = tail_topics(chosen.connection, chosen.topics, start, follow=follow)
    try:
        for record in islice(records, limit):
            click.echo(line_of(record, chosen.decoder_of(record.topic)))
    except KeyboardInterrupt:
        pass  # the way to end --follow
    finally:
        records.close()
