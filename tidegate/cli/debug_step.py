"""``tidegate debug step``: takes a step once more, in Python and by the kernel, and compares the results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from tidegate.access.private_files import write_new
from tidegate.cli.kafka_options import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.printing import echo
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.client.step_source import StepSource
from tidegate.errors import InputError
from tidegate.processor.containment import StepBroke
from tidegate.replay.step_comparison import StepComparison, compare
from tidegate.replay.step_file import decode_step, encode_step
from tidegate.replay.written_step import WrittenStep

#: The number of offsets after which the progress through the log is shown again.
_TOLD_EVERY = 100_000


@click.command()
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="The log partition.")
@click.option(
    "--from-offset",
    "first",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="The first record of the step. [default with --stored: the one behind the state]",
)
@click.option(
    "--records",
    "count",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    metavar="N",
    help="How many offsets the step takes.",
)
@click.option(
    "--stored",
    is_flag=True,
    help="Begin with the state that workers have stored, which must not run; else it is built from the log.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the step to this file, with its state. It holds data of the log.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the step of a file instead. No Kafka is asked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
@topic_prefix_option
@app_id_option
@kafka_options
@click.pass_context
def step(
    ctx: click.Context,
    connection: KafkaConnection,
    app_id: str,
    topic_prefix: str,
    partition: int | None,
    first: int | None,
    count: int,
    stored: bool,
    save: Path | None,
    replay: Path | None,
    as_json: bool,
) -> None:
    """Take records of the log once more, in Python and by the kernel, and compare the results.

    For example `--partition 3 --from-offset 81200`, the place that a worker has named for a broken step.
    Nothing is written to Kafka. The exit status is 1 if anything differs, or if the kernel broke.
    """
    if replay is not None:
        if partition is not None or first is not None or stored or save is not None:
            raise click.UsageError("--replay takes the step of its file: give it alone.")
        taken = _read(replay)
    else:
        if partition is None:
            raise click.UsageError("Give --partition, or --replay with the file of a step.")
        source = StepSource(connection, Topics(app_id, topic_prefix), partition, _told())
        taken = _from_kafka(source, first, count, stored=stored)
    if save is not None:
        _write(save, taken)
    found = compare(taken)
    if as_json:
        place = {"partition": taken.partition, "from_offset": taken.first, "to_offset": _last(taken)}
        echo(json.dumps(place | asdict(found), indent=2))
    else:
        _print(taken, found)
    ctx.exit(1 if found.difference or found.traps else 0)


def _from_kafka(source: StepSource, first: int | None, count: int, *, stored: bool) -> WrittenStep:
    try:
        if stored:
            return source.from_stored(first, count)
        if first is None:
            raise click.UsageError("Give --from-offset, or --stored.")
        return source.from_log(first, count)
    except StepBroke as broken:
        raise InputError(
            f"A record below the step breaks it, so there is no state to begin with: {broken}. Begin there: "
            "the step is compared up to such a record"
        ) from None


def _told() -> Callable[[int], None]:
    """Return a function that shows on standard error how far the log has been read."""
    told = 0

    def tell(offset: int) -> None:
        nonlocal told
        if offset >= told + _TOLD_EVERY:
            told = offset
            echo(f"The state is built: {offset} offsets of the log are read.", err=True)

    return tell


def _read(file: Path) -> WrittenStep:
    try:
        return decode_step(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error}.") from None


def _write(file: Path, taken: WrittenStep) -> None:
    """Write a step to a new file that no other user may read."""
    try:
        write_new(file, encode_step(taken))
    except FileExistsError:
        raise InputError(f"{file} exists already: give a name that is free, or remove it.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error}.") from None


def _last(taken: WrittenStep) -> int:
    return taken.records[-1].offset if taken.records else taken.first


def _print(taken: WrittenStep, found: StepComparison) -> None:
    echo(
        f"Log partition {taken.partition}, offsets {taken.first} to {_last(taken)}: {found.records} records, "
        f"of which the kernel followed {found.followed}, and {found.rows} rows."
    )
    if found.broke:
        echo(f"The step breaks, and the engine passes that record over: {found.broke}.")
    if found.traps:
        echo(f"The kernel broke {found.traps} times, and Python took these batches. It is a defect.")
    echo(
        f"They differ. {found.difference}."
        if found.difference
        else "Python and the kernel agree in all rows, in the state, and in all else that the step says."
    )
