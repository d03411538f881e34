"""``tidegate feed``: creates, lists, shows, moves and drops feeds, and moves them to another cluster."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any, Final

import click

from tidegate.changefeed.definition.feed import LASTING, Engine, FeedId, FeedState, feed_id
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.changefeed.statement.definition import define_feed
from tidegate.cli.failure import Commands, show_failure
from tidegate.cli.kafka_options import app_id_option, kafka_options
from tidegate.cli.options.finite_numbers import Seconds
from tidegate.cli.printing import echo, print_fields, print_table
from tidegate.client.cluster_acceptance import (
    Begin,
    Origin,
    acceptance_row,
    begin_there,
    find_cluster,
    go_on_there,
)
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_rows import beginning, feed_row
from tidegate.client.feed_topics import check_destination, check_registry
from tidegate.client.jobs import Jobs, jobs_topic
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import BrokerUnavailable, InputError
from tidegate.hlc import Timestamp

_COLUMNS: Final = (
    ("ID", "job_id"),
    ("STATUS", "status"),
    ("ENGINE", "engine"),
    ("HIGH WATER", "high_water_timestamp"),
    ("HIGH WATER (UTC)", "readable_high_water_timestamptz"),
    ("TABLES", "full_table_names"),
    ("TOPICS", "topics"),
    ("SINK", "sink_uri"),
    ("ERROR", "error"),
)

_ENGINES: Final = click.Choice([engine.value for engine in LASTING])

_wait_option = click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until it runs or has ended."
)
_wait_seconds_option = click.option(
    "--wait-seconds",
    type=Seconds(),
    default=60.0,
    show_default=True,
    help="How long to wait at most: for a first worker, and then for the feed.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")


@click.group(cls=Commands)
def feed() -> None:
    """Create, list, show, move and drop feeds, and let them continue on another cluster."""


@feed.command()
@click.argument("statement")
@click.option(
    "--engine",
    type=_ENGINES,
    default=Engine.WORKERS.value,
    show_default=True,
    help="The engine that runs it: workers, or the application's Spark query.",
)
@_wait_option
@_wait_seconds_option
@app_id_option
@kafka_options
@click.pass_context
def create(
    ctx: click.Context,
    connection: KafkaConnection,
    app_id: str,
    statement: str,
    engine: str,
    wait: bool,
    wait_seconds: float,
) -> None:
    """Create a feed by a CREATE CHANGEFEED statement; prints its id.

    With --no-wait the definition is stored, and the command ends: also where no worker of the application
    has run yet. The feed is pending until one does.

    A statement - is read from standard input: others can read arguments, and so a password in one.

    \b
    tidegate feed create "CREATE CHANGEFEED FOR TABLE flights
        INTO 'kafka://127.0.0.1:9092' WITH updated, resolved='1s'"
    """
    now_ns = time.time_ns()
    if statement == "-":
        statement = _from_standard_input()
    defined = define_feed(statement, new_feed_id(now_ns), now_ns)
    check_registry(defined.definition.options, connection.destinations)
    check_destination(connection, defined.definition)
    echo(beginning(defined.definition.options), err=True)
    if not wait and Jobs.create_topic(connection, app_id):
        _say_created(app_id)
    jobs = Jobs(
        connection, app_id, appear_s=wait_seconds if wait else 0.0, waits=lambda: _say_waiting(app_id)
    )
    id_ = defined.definition.id
    try:
        jobs.create(replace(defined.definition, engine=Engine(engine)))
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"{error} Feed {id_} may have been created all the same: `tidegate feed show {id_}` tells. Look "
            "there before you create it again."
        ) from None
    echo(id_)
    if wait:
        _wait_for(ctx, jobs, id_, wait_seconds)


def _from_standard_input() -> str:
    try:
        return click.get_binary_stream("stdin").read().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"The statement on standard input is not UTF-8: {error}.") from None


def _wait_for(ctx: click.Context, jobs: Jobs, id_: FeedId, wait_seconds: float) -> None:
    """Wait until the feed runs or has ended.

    The exit status is 1 for a feed that has ended without success.
    """
    view = jobs.wait(id_, wait_seconds)
    if view.status is FeedState.SUCCEEDED:
        echo("The feed has succeeded.", err=True)
        return
    if view.status is not FeedState.RUNNING:
        reason = "" if view.current_state is None else f": {view.current_state.error}"
        show_failure(f"The feed is {view.status.value}{reason}.")
        ctx.exit(1)
    echo("The feed is running.", err=True)


@feed.command("list")
@_json_option
@app_id_option
@kafka_options
def list_feeds(connection: KafkaConnection, app_id: str, as_json: bool) -> None:
    """List all feeds and their progress."""
    rows = [feed_row(id_, view) for id_, view in Jobs(connection, app_id).view().feeds()]
    if as_json:
        echo(json.dumps(rows, indent=2))
    elif not rows:
        echo("There are no feeds.")
    else:
        print_table(
            [title for title, _ in _COLUMNS],
            ([_cell(_in_list(row)[name]) for _, name in _COLUMNS] for row in rows),
        )
    if told := [row["job_id"] for row in rows if row["literal_secrets"]]:
        echo(
            f"Secrets stand in the definitions of {', '.join(told)}, for all who read the jobs topic: create "
            "these feeds anew with secret://NAME (docs/security.md#secrets).",
            err=True,
        )


@feed.command()
@click.argument("feed_name", metavar="ID")
@_json_option
@app_id_option
@kafka_options
def show(connection: KafkaConnection, app_id: str, feed_name: str, as_json: bool) -> None:
    """Show all that is known of one feed."""
    id_ = feed_id(feed_name)
    row = feed_row(id_, Jobs(connection, app_id).feed(id_))
    if as_json:
        echo(json.dumps(row, indent=2))
    else:
        print_fields((name, _cell(value)) for name, value in row.items())


@feed.command()
@click.argument("feed_name", metavar="ID")
@click.option("--to", "engine", type=_ENGINES, required=True, help="The engine that runs it from now on.")
@_wait_option
@_wait_seconds_option
@app_id_option
@kafka_options
@click.pass_context
def move(
    ctx: click.Context,
    connection: KafkaConnection,
    app_id: str,
    feed_name: str,
    engine: str,
    wait: bool,
    wait_seconds: float,
) -> None:
    """Let another engine go on with a feed, above the last marker, with nothing left out.

    The present engine may be away for good. The other one goes on as soon as it runs.
    """
    id_, jobs = feed_id(feed_name), Jobs(connection, app_id)
    jobs.move(id_, Engine(engine))
    echo(f"Feed {id_} continues on {engine}.", err=True)
    if wait:
        _wait_for(ctx, jobs, id_, wait_seconds)


@feed.command("accept-cluster")
@click.argument("feed_name", metavar="ID")
@click.option(
    "--cluster",
    "named",
    metavar="CLUSTER",
    help="The id of the cluster to accept. Without it the command only shows what it would do.",
)
@click.option(
    "--from",
    "origin",
    default=Begin.THERE.value,
    show_default=True,
    metavar="there|marker|start|TIMESTAMP",
    help="The timestamp above which the feed writes everything there. there: the last marker that every "
    "partition there has. marker: the last marker on the former cluster. start: the feed's start. Or a "
    "timestamp, in the form of a cursor.",
)
@_wait_option
@_wait_seconds_option
@app_id_option
@kafka_options
@click.pass_context
def accept_cluster(
    ctx: click.Context,
    connection: KafkaConnection,
    app_id: str,
    feed_name: str,
    named: str | None,
    origin: str,
    wait: bool,
    wait_seconds: float,
) -> None:
    """Let a held feed continue on the Kafka cluster that its sink's address means now.

    Every row above a timestamp is written there, and none at or below it: see
    docs/protocols/accept-cluster.md for which timestamp is right. The command shows both clusters and that
    timestamp; with --cluster it acts.

    \b
    tidegate feed accept-cluster ID
    tidegate feed accept-cluster ID --cluster 4L6g3nShT-eMCtK--X86sw --from marker
    """
    id_, jobs = feed_id(feed_name), Jobs(connection, app_id)
    with find_cluster(connection, app_id, id_, jobs.view()) as found:
        if named is not None and named != found.found:
            raise InputError(
                f"The cluster {found.found} answers at {found.connection.bootstrap_servers}, and not "
                f"{named}: nothing was changed. The topics of feed {id_} are on {found.stored}."
            )
        chosen = _origin(origin)
        begin = begin_there(found, chosen)
        print_fields(acceptance_row(found, begin).items())
        if named is None:
            above = chosen.decimal() if isinstance(chosen, Timestamp) else origin
            again = f"tidegate feed accept-cluster {id_} --cluster {found.found} --from {above}"
            echo(f"Nothing was changed. To have the feed go on there: `{again}`.", err=True)
            return
        go_on_there(jobs, found, begin, copied=chosen is Begin.THERE)
        echo(f"Feed {id_} continues on the cluster {found.found}.", err=True)
    if wait:
        _wait_for(ctx, jobs, id_, wait_seconds)


def _origin(text: str) -> Origin:
    words = {begin.value: begin for begin in Begin}
    return words[text] if text in words else read_cursor(text, time.time_ns())


@feed.command()
@click.argument("feed_name", metavar="ID")
@app_id_option
@kafka_options
def drop(connection: KafkaConnection, app_id: str, feed_name: str) -> None:
    """End a feed for good. What it has written stays on its topics."""
    id_ = feed_id(feed_name)
    Jobs(connection, app_id).drop(id_)
    echo(f"Feed {id_} will end; what it has written stays.")


def _in_list(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its ``running_status`` added to its status. It says why a high-water is missing."""
    return row | {"status": ": ".join(filter(None, (row["status"], row["running_status"])))}


def _say_waiting(app_id: str) -> None:
    echo(f"Waiting for the first worker of the application {app_id} ...", err=True)


def _say_created(app_id: str) -> None:
    echo(
        f"The application {app_id} is new: no worker has created its topic {jobs_topic(app_id)}, so this "
        "command has. The feed waits there for the first worker; check --app-id if workers run already.",
        err=True,
    )


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else str(value)
