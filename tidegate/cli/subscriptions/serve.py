"""``tidegate serve``: gives subscriptions to clients of PostgreSQL's protocol, to browsers, and by HTTP."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidegate.cli.kafka_options import app_id_option, kafka_options
from tidegate.cli.printing import echo
from tidegate.cli.subscriptions.spill_options import spill_options
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import SpillSettings
from tidegate.errors import SettingsError
from tidegate.subscribe.statement.switches import SubscribeSwitches

if TYPE_CHECKING:
    from tidegate.serve.feeds.feed_lookup import FeedLookup
    from tidegate.serve.server import CheckedSettings

_OFF: Final = "off"
_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--postgres",
    default="127.0.0.1:6875",
    show_default=True,
    metavar="HOST:PORT",
    help="Where clients of PostgreSQL connect; off for nowhere.",
)
@click.option(
    "--web",
    default="127.0.0.1:6880",
    show_default=True,
    metavar="HOST:PORT",
    help="Where browsers and HTTP clients connect; off for nowhere.",
)
@click.option(
    "--users", type=_FILE, help="File of users of the PostgreSQL front; --print-user writes its lines."
)
@click.option("--token-file", type=_FILE, help="File with the token that HTTP clients have to send.")
@click.option("--tls-cert", type=_FILE, help="PEM file of the certificate of both fronts.")
@click.option("--tls-key", type=_FILE, help="PEM file of its key, without a password.")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name by which browsers know the web front."
)
@click.option("--topic-prefix", default="", help="Prefix of the log topic, if it has one.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the rows of tables; by default they are in memory.",
)
@click.option(
    "--worker-url",
    "worker_urls",
    multiple=True,
    metavar="URL",
    help="Address of a worker, for the page of feeds; name all that there are.",
)
@click.option(
    "--worker-data-dir",
    "worker_data_dirs",
    envvar="TIDEGATE_DATA_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    default=[Path("data")],
    show_default=True,
    show_envvar=True,
    help="Data directory of a worker on this machine, where no --worker-url is given.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="OUTPUT",
    help="An output that statements may not ask for: envelope_upsert, envelope_debezium or "
    "within_timestamp_order_by; give it once for each.",
)
@click.option(
    "--print-user", metavar="NAME", help="Ask for a password, print NAME's line for --users, and end."
)
@spill_options
@app_id_option
@kafka_options
def serve(
    connection: KafkaConnection,
    app_id: str,
    postgres: str,
    web: str,
    users: Path | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    allow_host: tuple[str, ...],
    topic_prefix: str,
    data_dir: Path | None,
    worker_urls: tuple[str, ...],
    worker_data_dirs: tuple[Path, ...],
    without: tuple[str, ...],
    print_user: str | None,
    spill: SpillSettings,
) -> None:
    """Serve SUBSCRIBE over the output topics of an application's feeds.

    On loopback it needs no password. An address that others reach needs TLS, --users and --token-file.
    """
    try:
        # Imported here: the command line works without the extra.
        from tidegate.serve.addresses import read_address
        from tidegate.serve.feeds.feed_lookup import FeedLookup
        from tidegate.serve.postgres.scram import make_verifier
        from tidegate.serve.postgres.users_file import require_user_name
        from tidegate.serve.server import ServeSettings, check_settings
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"The server is not installed ({error.name} is missing): pip install 'tidegate[serve]'"
        ) from None
    if print_user is not None:
        require_user_name(print_user)
        password = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
        echo(f"{print_user}:{make_verifier(password)}")
        return
    settings = ServeSettings(
        postgres=None if postgres == _OFF else read_address(postgres),
        web=None if web == _OFF else read_address(web),
        users=users,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        token_file=token_file,
        allowed_hosts=frozenset(name.lower() for name in allow_host),
    )
    checked = check_settings(settings)
    switches = SubscribeSwitches.without(without)
    lookup = FeedLookup(
        connection, app_id, worker_urls, worker_data_dirs, checked.settings.limits.explained_feeds
    )
    asyncio.run(_serve(connection, app_id, topic_prefix, data_dir, spill, switches, checked, lookup))


async def _serve(
    connection: KafkaConnection,
    app_id: str,
    topic_prefix: str,
    data_dir: Path | None,
    spill: SpillSettings,
    switches: SubscribeSwitches,
    checked: CheckedSettings,
    lookup: FeedLookup,
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    from tidegate.serve.feed_subscriptions import FeedSubscriptions
    from tidegate.serve.server import serving
    from tidegate.serve.shared.table_rows import remove_left_rows
    from tidegate.serve.web.watched_feeds import WatchedFeeds

    if data_dir is not None:
        await asyncio.to_thread(remove_left_rows, data_dir)
    subscriptions = FeedSubscriptions(
        connection,
        app_id,
        topic_prefix,
        checked.settings.limits,
        data=data_dir,
        spill=spill,
        switches=switches,
    )
    await subscriptions.refresh()  # faults of the application are told before anything listens
    ended = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, ended.set)
    async with serving(subscriptions, checked, WatchedFeeds(lookup.look)) as running:
        if running.postgres is not None:
            host = f"host={running.postgres.host} port={running.postgres.port}"
            echo(f'PostgreSQL  psql "{host} user=tidegate dbname=tidegate"', err=True)
        if running.web is not None:
            scheme = "http" if checked.tls is None else "https"
            echo(f"web         {scheme}://{running.web}/", err=True)
            echo(f"feeds       {scheme}://{running.web}/feeds.html", err=True)
        await ended.wait()
