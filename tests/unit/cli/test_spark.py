"""``tidegate spark``: what is said where Spark's connector cannot be had."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tests.unit.cli.running import NOBODY, run
from tidegate.cli.spark import changefeed
from tidegate.cli.spark_place import _connector
from tidegate.errors import SettingsError
from tidegate.spark.changefeed.changefeed_query import QueryOptions


def test_without_a_broker_the_command_says_so_before_spark_starts(tmp_path: Path) -> None:
    result = run("spark", "changefeed", "--checkpoint", str(tmp_path / "query"), *NOBODY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Kafka at 127.0.0.1:1 gave no answer within 0.3 s")
    assert not (tmp_path / "query").exists()


def test_a_connector_that_cannot_be_downloaded_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho 'java.net.UnknownHostException'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        SettingsError, match=r"could not be downloaded: Maven ended .*by --jars: .*"
    ) as refusal:
        _connector()
    assert len(str(refusal.value).splitlines()) == 1
    assert "UnknownHost" not in str(refusal.value)


@pytest.mark.parametrize("command", ["backfill", "changefeed", "load"])
def test_every_job_has_its_command(command: str) -> None:
    assert run("spark", command, "--help").exit_code == 0


def test_a_batch_of_a_query_has_a_bound_unless_somebody_says_otherwise() -> None:
    (option,) = [each for each in changefeed.params if each.name == "batch_records"]
    (field,) = [each for each in fields(QueryOptions) if each.name == "batch_records"]
    assert option.default == field.default
    assert isinstance(field.default, int)
    assert field.default > 0


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("changefeed", "--output-partitions=0"),
        ("changefeed", "--batch-records=-1"),
        ("changefeed", "--interval=-0.1"),
        ("backfill", "--output-partitions=0"),
        ("load", "--batch-records=-1"),
        ("load", "--interval=-0.1"),
    ],
)
def test_a_number_that_no_job_can_have_is_refused_by_the_option_s_name(command: str, option: str) -> None:
    result = run("spark", command, option, *NOBODY)
    name, _, value = option.partition("=")
    assert result.exit_code == 2
    assert f"Invalid value for '{name}': {value} is not in the range" in result.stderr
