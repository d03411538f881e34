"""``tidegate debug``: reads the log, takes a step again, and shows records that were kept aside."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from tidegate.cli.check_log import check_log
from tidegate.cli.debug_lines import FORMATS
from tidegate.cli.debug_step import step
from tidegate.cli.failure import show_failure
from tidegate.cli.kafka_options import kafka_options, topic_prefix_option
from tidegate.cli.printing import echo
from tidegate.cli.refused import refused
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.log_reader import LogBegin, parse_begin, read_log
from tidegate.client.table_descriptors import read_catalog
from tidegate.errors import InputError
from tidegate.hlc import ZERO
from tidegate.processor.containment import unforeseen
from tidegate.rangefeed.log_feeds import LogFeeds, RangeEvent
from tidegate.rangefeed.registration import FeedRequest
from tidegate.rows.keyside.integers import encode_uvarint_asc
from tidegate.rows.table_key import prefix_end, tenant_prefix
from tidegate.spans import EVERYTHING, Span
from tidegate.verify import TopicRecord


@click.group()
def debug() -> None:
    """Look into the log, and at records that broke something."""


debug.add_command(check_log)
debug.add_command(refused)
debug.add_command(step)


class _Begin(click.ParamType):
    """The type of a parameter that is ``beginning``, an offset or a timestamp."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LogBegin:
        try:
            return value if isinstance(value, LogBegin) else parse_begin(value)
        except ValueError as error:
            return self.fail(str(error), param, ctx)


@debug.command()
@click.option(
    "--from",
    "begin",
    type=_Begin(),
    default="beginning",
    show_default=True,
    metavar="beginning|OFFSET|TIMESTAMP",
    help="Where to begin: an offset of each partition, or above a timestamp.",
)
@click.option(
    "--span",
    "span_text",
    metavar="START,END|TABLE",
    help="Keys in hex, or a table by its name. [default: everything]",
)
@click.option("--tenant", type=click.IntRange(min=2), help="The tenant whose keys carry a prefix, for TABLE.")
@click.option("--diff", is_flag=True, help="Also show the value that each one replaced, if the log has it.")
@click.option(
    "--filtering", is_flag=True, help="Leave out versions that writers want omitted from changefeeds."
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Read only this partition. You can give the option several times.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="The form of the lines.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with new records, until you interrupt the command.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Stop after so many events.")
@topic_prefix_option
@kafka_options
def rangefeed(
    connection: KafkaConnection,
    topic_prefix: str,
    begin: LogBegin,
    span_text: str | None,
    tenant: int | None,
    diff: bool,
    filtering: bool,
    partitions: tuple[int, ...],
    form: str,
    follow: bool,
    limit: int | None,
) -> None:
    """Print the events of a span straight from the log: values, deletions, checkpoints, steady states.

    Each line names partition, offset and range. The events of a range come in the order of its log; those of
    ranges in different partitions interleave. A feed that ends says why, and begins again at the range's next
    snapshot. Events that it missed in between are not shown.
    """
    log_topic = f"{topic_prefix}raftlog"
    span = _span(connection, log_topic, span_text, tenant)
    feeds = LogFeeds(FeedRequest(span, begin.above or ZERO, with_diff=diff, with_filtering=filtering))
    records = read_log(connection, log_topic, begin, partitions=partitions, follow=follow)
    lines = (FORMATS[form](record, found) for record in records for found in _events(feeds, record))
    try:
        for line in islice(lines, limit):
            echo(line)
    except KeyboardInterrupt:
        pass  # the user's way to end --follow
    finally:
        records.close()


def _events(feeds: LogFeeds, record: TopicRecord) -> list[RangeEvent]:
    """Return the events of a record.

    An unforeseen exception is reported, and ends the feeds that it concerns (U8).
    """
    try:
        return feeds.read_record(record.partition, record.key, record.value)
    except Exception as error:
        cause = unforeseen(error)
        show_failure(f"{record.topic}[{record.partition}]@{record.offset}: {cause}")
        return feeds.end_unreadable(record.partition, record.key, cause)


def _span(connection: KafkaConnection, log_topic: str, text: str | None, tenant: int | None) -> Span:
    """Return the span of the command line.

    Raises ``UsageError`` for bad hex, ``InputError`` for a table that the log does not know.
    """
    if text is None:
        return EVERYTHING
    if "," not in text:
        return _table_span(connection, log_topic, text, tenant)
    try:
        span = Span(*(bytes.fromhex(key) for key in text.split(",")))
        span.validate()
    except (ValueError, TypeError) as error:
        raise click.UsageError(
            f"--span {text}: give two keys in hex, the first below the second ({error})."
        ) from None
    return span


def _table_span(connection: KafkaConnection, log_topic: str, name: str, tenant: int | None) -> Span:
    table = read_catalog(connection, log_topic).by_name(name)
    if table is None:
        raise InputError(
            f"The log {log_topic} describes no table {name}. Descriptors that cannot be read do not count: "
            "`tidegate debug check-log` names them."
        )
    prefix = (b"" if tenant is None else tenant_prefix(tenant)) + encode_uvarint_asc(table.id)
    return Span(prefix, prefix_end(prefix))
