"""``tidegate status``: shows what a running worker reports of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tidegate.cli.failure import show_failure
from tidegate.cli.kafka_options import app_id_option, data_dir_option
from tidegate.cli.options.finite_numbers import MOST_ANSWER_S, Seconds
from tidegate.cli.printing import echo, print_fields, print_table
from tidegate.client.why.worker_status import fetch_status, worker_url
from tidegate.errors import TidegateError


@click.command()
@click.option(
    "--url",
    "urls",
    multiple=True,
    help="Address of a worker. Give it for each worker; by default the worker of this machine is asked.",
)
@data_dir_option
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(positive=True, most_s=MOST_ANSWER_S),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the worker's JSON as it is.")
@app_id_option
@click.pass_context
def status(
    ctx: click.Context, app_id: str, urls: tuple[str, ...], data_dir: Path, timeout_s: float, as_json: bool
) -> None:
    """Show a worker's partitions, feeds, sinks, and its slowest, parked and quarantined ranges.

    With several workers each is shown with its own: a range is on the worker of its log partition. Those that
    do not answer are named, and the exit status is 1 then.
    """
    places = urls or (worker_url(data_dir, app_id),)
    found: dict[str, dict[str, Any]] = {}
    faults: list[TidegateError] = []
    for url in places:
        try:
            found[url] = fetch_status(url, timeout_s)
        except TidegateError as error:
            faults.append(error)
    if found:
        _show(found, is_list=len(places) > 1, as_json=as_json)
    for fault in faults:
        show_failure(str(fault))
    ctx.exit(1 if faults else 0)


def _show(found: dict[str, dict[str, Any]], *, is_list: bool, as_json: bool) -> None:
    if as_json:
        shown = list(found.values())
        echo(json.dumps(shown if is_list else shown[0], indent=2))
        return
    for number, (url, worker) in enumerate(found.items()):
        if is_list:
            echo(f"{'' if number == 0 else chr(10)}worker  {url}")
        _print(worker)


def _print(found: dict[str, Any]) -> None:
    tables = {name: value for name, value in found.items() if _is_table(value)}
    print_fields((name, _cell(value)) for name, value in found.items() if name not in tables)
    for name, rows in tables.items():
        echo(f"\n{name.replace('_', ' ')}")
        columns = list(dict.fromkeys(column for row in rows for column in row))
        print_table(
            [column.replace("_", " ").upper() for column in columns],
            ([_cell(row.get(column)) for column in columns] for row in rows),
        )


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _cell(value: Any) -> str:
    if value is None or value == []:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
