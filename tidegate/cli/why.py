"""``tidegate why``: explains what holds a feed's resolved timestamp back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tidegate.changefeed.definition.feed import feed_id
from tidegate.cli.kafka_options import app_id_option, kafka_options
from tidegate.cli.printing import echo, print_fields
from tidegate.client.feed_rows import readable
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.why.evidence import gather
from tidegate.client.why.explanation import Explanation, explain
from tidegate.client.why.finding import behind_present
from tidegate.client.why.worker_status import worker_urls
from tidegate.hlc import NANOS_PER_MS


@click.command()
@click.argument("feed_name", metavar="ID")
@click.option("--url", "urls", multiple=True, help="Address of a worker; name all that there are.")
@click.option(
    "--data-dir",
    "data_dirs",
    envvar="TIDEGATE_DATA_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    default=[Path("data")],
    show_default=True,
    show_envvar=True,
    help="Data directory of a worker on this machine, where no --url is given.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "text"]),
    default="text",
    show_default=True,
    help="The form of the answer.",
)
@app_id_option
@kafka_options
def why(
    connection: KafkaConnection,
    app_id: str,
    feed_name: str,
    urls: tuple[str, ...],
    data_dirs: tuple[Path, ...],
    form: str,
) -> None:
    """Explain why a feed's resolved timestamp stands still, and what to do.

    Each worker knows only its own ranges and feeds. If there are several workers, name them all by --url.
    """
    now_ms = time.time_ns() // NANOS_PER_MS
    found, silent = (list(urls), []) if urls else worker_urls(data_dirs, app_id)
    explanation = explain(gather(connection, app_id, feed_id(feed_name), found, now_ms, silent))
    if form == "json":
        echo(json.dumps(explanation.to_json(), indent=2))
    else:
        print_explanation(explanation)


def print_explanation(explanation: Explanation) -> None:
    """Print the explanation for people: the feed and the place of the answer, then the findings."""
    facts, high_water, lag_ms = explanation.answer.facts, explanation.high_water, explanation.lag_ms
    print_fields(
        (
            ("feed", f"{explanation.feed_id}, {explanation.status}"),
            ("high-water", "" if high_water is None else f"{high_water} ({readable(high_water)})"),
            ("lag", "" if lag_ms is None else behind_present(lag_ms)),
            ("lowest span", explanation.span_text),
            ("range", _range(facts)),
            ("log", _place(facts)),
        )
    )
    echo(f"\n{explanation.answer.sentence}")
    for finding in explanation.findings[1:]:
        echo(f"\nAlso: {finding.sentence}")


def _range(facts: Mapping[str, Any]) -> str:
    """Return the range of a finding, as far as it is known: a finding about scans has no generation."""
    if "range_id" not in facts:
        return ""
    known = [str(facts["range_id"])]
    if "generation" in facts:
        known += [f"generation {facts['generation']}", facts["state"]]
    return ", ".join(known)


def _place(facts: Mapping[str, Any]) -> str:
    """Return the finding's place in the log, without an offset if the worker does not know it."""
    if "partition" not in facts or "topic" in facts:  # with a topic, it is no partition of the log
        return ""
    offset = facts.get("offset")
    return f"partition {facts['partition']}" + ("" if offset is None else f", offset {offset}")
