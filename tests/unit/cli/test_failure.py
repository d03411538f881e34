"""A person sees a sentence and an exit status when a command cannot do its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.running import NOBODY, run


@pytest.mark.parametrize(
    "arguments",
    [("feed", "list"), ("feed", "show", "x"), ("feed", "drop", "x"), ("tail", "rows")],
    ids=" ".join,
)
def test_without_a_broker_a_command_says_so(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, *NOBODY)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Kafka at 127.0.0.1:1 gave no answer within 0.3 s")


def test_without_a_broker_an_audit_could_not_check() -> None:
    result = run("verify", "rows", *NOBODY)
    assert result.exit_code == 2
    assert "gave no answer" in result.stderr


def test_a_mistake_in_a_statement_is_pointed_at() -> None:
    result = run("feed", "create", "CREATE CHANGEFEED FOR flights INTO 'kafka://k' WITH update", *NOBODY)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "unknown option; did you mean updated?",
        "  CREATE CHANGEFEED FOR flights INTO '*********' WITH update",
        "                                                      ^",
    ]


def test_a_bad_feed_id_is_refused() -> None:
    result = run("feed", "show", "a/b", *NOBODY)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        1,
        "not a feed id: 'a/b' (1 to 64 letters, digits, _ and -)",
    )


def test_tail_of_nothing_is_a_usage_error() -> None:
    result = run("tail", *NOBODY)
    assert result.exit_code == 2
    assert "Name at least one TOPIC, or a feed by --feed." in result.stderr


def test_a_history_without_a_feed_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.touch()
    result = run("verify", "rows", "--history", str(file), *NOBODY)
    assert result.exit_code == 2
    assert "--history needs --feed" in result.stderr


def test_a_horizon_that_is_no_duration_is_a_usage_error() -> None:
    result = run("verify", "rows", "--horizon", "soon", *NOBODY)
    assert result.exit_code == 2
    assert "not a duration: '...'" in result.stderr
