"""``tidegate debug refused``: shows records on which an unforeseen exception came up, and that were kept
aside.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from tidegate.access.directory_uri import directory_uri
from tidegate.access.private_files import write_new
from tidegate.cli.kafka_options import app_id_option, data_dir_option
from tidegate.cli.printing import echo, print_fields, print_table
from tidegate.cli.service_tree import service_module
from tidegate.client.decoded_again import decoded_again
from tidegate.client.local_files import LocalFiles
from tidegate.client.refused_records import (
    DIRECTORY,
    KeptRecord,
    RefusedFiles,
    kept_names,
    read_kept,
)
from tidegate.errors import InputError
from tidegate.redaction import redacted, redacted_values

_SHOWN_BYTES = 200


@click.command()
@click.argument("name", required=False)
@data_dir_option
@click.option("--checkpoint", metavar="DIRECTORY", help="Checkpoint directory of a Spark query instead.")
@click.option(
    "--write",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Write key and value of NAME there, as they came, to NAME.key and NAME.value.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
@app_id_option
def refused(
    app_id: str, name: str | None, data_dir: Path, checkpoint: str | None, write: Path | None, as_json: bool
) -> None:
    """List records on which an unforeseen exception came up, or show the one called NAME.

    This version of tidegate decodes the record that is shown, and says whether that succeeds. Nothing else
    happens. A part of the name is enough if no other name has it.
    """
    files = _files(app_id, data_dir, checkpoint)
    try:
        names = kept_names(files)
    except OSError as error:
        raise InputError(f"The records that were kept aside cannot be listed: {error}.") from None
    if name is None:
        if write is not None:
            raise click.UsageError("--write needs NAME: which record to write.")
        _list(files, names, as_json=as_json)
        return
    found = _the_one(names, name)
    kept = read_kept(files, found)
    if write is not None:
        _write(write, found.removesuffix(".json"), kept)
    _show(found, kept, as_json=as_json)


def _files(app_id: str, data_dir: Path, checkpoint: str | None) -> RefusedFiles:
    if checkpoint is None:
        return LocalFiles(data_dir / app_id / DIRECTORY)
    module = service_module("tidegate.spark.changefeed.refused_files")
    try:
        files: RefusedFiles = module.RemoteFiles.of_checkpoint(directory_uri(checkpoint))
    except (OSError, ValueError) as error:
        raise InputError(f"The checkpoint directory {checkpoint} cannot be opened: {error}.") from None
    return files


def _the_one(names: list[str], part: str) -> str:
    found = [each for each in names if part in each]
    if len(found) == 1:
        return found[0]
    many = f"{len(found)} records have" if found else "No record that is kept has"
    raise InputError(f"{many} {part} in its name; `tidegate debug refused` lists them.")


def _list(files: RefusedFiles, names: list[str], *, as_json: bool) -> None:
    rows: list[dict[str, str | int | None]] = []
    for name in names:
        try:
            kept = read_kept(files, name)
        except InputError as damaged:
            rows.append({"name": name, "error": str(damaged)})
        else:
            rows.append({"name": name, **_place(kept)})
    if as_json:
        echo(json.dumps(redacted_values(rows), indent=2))
    elif not rows:
        echo("No record is kept aside.")
    else:
        shown = ("name", "topic", "partition", "offset", "exception")
        print_table(
            [column.upper() for column in shown],
            ([redacted(str(row.get(column, row.get("error", "")))) for column in shown] for row in rows),
        )


def _place(kept: KeptRecord) -> dict[str, str | int | None]:
    record = kept.record
    return {
        "source": record.source.value,
        "topic": kept.topic,
        "partition": kept.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms or None,
        "feed": None if record.row is None else record.row.feed_id,
        "row_timestamp": None if record.row is None else record.row.timestamp,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        "left_out_bytes": kept.left_out or None,
        "exception": record.exception,
        "cause": record.cause,
        "version": kept.version,
    }


def _show(name: str, kept: KeptRecord, *, as_json: bool) -> None:
    outcome = decoded_again(kept.record)
    key, value = kept.record.key, kept.record.value
    if as_json:
        shown = {
            "name": name,
            **_place(kept),
            "key": None if key is None else key.hex(),
            "value": None if value is None else value.hex(),
            "decoded": outcome,
        }
        echo(json.dumps(redacted_values(shown), indent=2))
        return
    fields = [("name", name)]
    fields += [(title, str(each)) for title, each in _place(kept).items() if each is not None]
    fields += [(title, _hex(each)) for title, each in (("key", key), ("value", value)) if each is not None]
    print_fields((title, redacted(text)) for title, text in fields)
    echo(f"\n{redacted(outcome)}")


def _hex(content: bytes) -> str:
    shown = content[:_SHOWN_BYTES].hex()
    rest = len(content) - _SHOWN_BYTES
    return shown if rest <= 0 else f"{shown}... and {rest} bytes (--write, --json)"


def _write(directory: Path, name: str, kept: KeptRecord) -> None:
    """Write key and value to new files that only this user can read."""
    for title, content in (("key", kept.record.key), ("value", kept.record.value)):
        if content is None:
            continue
        file = directory / f"{name}.{title}"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_new(file, content)
        except FileExistsError:
            raise InputError(f"{file} exists already: name another directory, or remove it.") from None
        except OSError as error:
            raise InputError(f"{directory} cannot be written: {error}.") from None
