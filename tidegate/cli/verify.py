"""``tidegate verify``: checks whether output topics keep the promise of their markers."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import track

from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.cli.failure import show_failure
from tidegate.cli.kafka_options import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.printing import echo
from tidegate.cli.reading import Asked, Reading, choose_reading, reading_options
from tidegate.cli.service_tree import service_module
from tidegate.client.expectations import expected_versions
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.client.subscribe.feed_term import other_feeds_of, term_of
from tidegate.client.table_descriptors import read_catalog
from tidegate.errors import TidegateError
from tidegate.verify import AuditOptions, Auditor, AuditReport, ExpectedVersion, TopicRecord, Verdict
from tidegate.verify.other_feeds import FeedBounds

_log: Final = logging.getLogger("tidegate.verify")


class VerifyCommand(click.Command):
    """A command whose exit status is 1 only if a rule is broken: every fault of its own ends it with 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """See ``click.Command``."""
        try:
            return super().invoke(ctx)
        except TidegateError as error:
            sentence = str(error)
        except KafkaException as error:
            sentence = f"Kafka: {error.args[0].str()}."
        except KeyboardInterrupt:
            sentence = "The audit was ended before it was done."
        except OSError as error:
            sentence = f"The report could not be written, or a file not be read: {error}."
            _give_output_up()
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            _log.exception("the audit ended")
            sentence = f"The audit ended with an error that nobody foresaw: {type(error).__name__}: {error}."
        show_failure(sentence)
        return ctx.exit(Verdict.INCOMPLETE.value)


def _give_output_up() -> None:
    """Drop the rest of the output: Python would write it at its end, and set another exit status."""
    with suppress(OSError, ValueError):  # a test's output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(cls=VerifyCommand)
@reading_options
@click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="History file of the simulated store: every committed version must be there. Needs --feed.",
)
@click.option(
    "--horizon",
    metavar="DURATION",
    help="Bound memory: forget versions this far below the markers (30m, 12h).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@topic_prefix_option
@app_id_option
@kafka_options
@click.pass_context
def verify(
    ctx: click.Context,
    connection: KafkaConnection,
    app_id: str,
    topic_prefix: str,
    asked: Asked,
    history: Path | None,
    horizon: str | None,
    as_json: bool,
) -> None:
    """Audit output topics, up to where they end now.

    Name all topics of one feed, since its markers go to every partition of each of them. If the markers have
    a topic of their own, name the feed; that topic is read as well then.

    Exit status: 0 when every rule is kept, 1 when one is broken, 2 when the topics could not be checked, or
    not fully.
    """
    if history is not None and asked.feed_name is None:
        raise click.UsageError("--history needs --feed: it tells which tables are expected where.")
    try:
        horizon_ns = None if horizon is None else parse_duration(horizon)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--horizon") from None
    if horizon_ns is not None and horizon_ns < 0:
        raise click.BadParameter("it is not negative", param_hint="--horizon")
    chosen = choose_reading(connection, app_id, asked)
    expected = None if history is None else _expected(connection, topic_prefix, chosen, history)
    report = _audit(chosen, horizon_ns, expected)
    echo(json.dumps(report.as_json(), indent=2) if as_json else str(report))
    ctx.exit(report.verdict.value)


def _audit(
    chosen: Reading,
    horizon_ns: int | None,
    expected: Iterable[ExpectedVersion] | None,
) -> AuditReport:
    output = OutputTopics.now(chosen.connection, chosen.topics, chosen.resolved_topic)
    feed = chosen.feed
    options = AuditOptions(
        start=None if feed is None else feed.start,
        initial_scan=None if feed is None else feed.options.initial_scan,
        succeeded=feed is not None and feed.succeeded,
        horizon_ns=horizon_ns,
        truncated=output.truncated,
        compacted=output.compacted,
        row_keys=feed is None or not feed.options.key_column,
        resolved_topic=output.resolved_topic,
        ends=output.ends if output.resolved_topic else {},
        settled=output.settled,
        bounds=None if feed is None or chosen.jobs is None else _bounds(chosen.jobs.view(), feed),
    )
    auditor = Auditor(output.counts, options, chosen.decoder, expected)
    auditor.feed(_shown(output))
    return auditor.finish()


def _bounds(jobs: JobsView, feed: FeedTopics) -> FeedBounds | None:
    """Return which records are the feed's own; ``None`` if nobody else has had its topics.

    ``jobs`` was read after the ends of the topics were known.
    """
    id_ = FeedId(feed.feed_id)
    others, term = other_feeds_of(jobs, id_), term_of(jobs, id_)
    if not (others.earlier or others.later):
        return None
    return FeedBounds(
        feed.start,
        scans=feed.options.initial_scan is not InitialScan.NO,
        before=term.before if others.earlier else None,
        end=term.end if others.later else None,
    )


def _expected(
    connection: KafkaConnection, topic_prefix: str, chosen: Reading, history: Path
) -> Iterable[ExpectedVersion]:
    feed = chosen.feed
    assert feed is not None
    versions = service_module("sim.log.history").History.load(history)
    catalog = read_catalog(connection, f"{topic_prefix}raftlog")
    targets = [target for target in feed.targets if target.topic in chosen.topics]
    topics = {target.table_id: target.topic for target in targets}
    names = {target.table_id: target.table for target in targets}
    schema_ids = feed.schema_ids(connection.destinations)
    return expected_versions(
        versions, catalog, feed.options, topics, schema_ids, start=feed.start, names=names
    )


def _shown(output: OutputTopics) -> Iterator[TopicRecord]:
    """Yield the records; on a terminal, show a bar with the progress of the reading."""
    total = sum(bounds.end - bounds.low for bounds in output.bounds.values())
    console = Console(file=sys.stderr)
    yield from track(
        output.records(),
        "Reading",
        total=total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
