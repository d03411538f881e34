"""Numbers and seconds that a command takes, and those that it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from tests.unit.cli.running import run
from tidegate.cli.main import cli
from tidegate.cli.options.finite_numbers import FiniteNumber, Seconds

_SECONDS = ("_s", "_ms", "seconds")


def options(command: click.Command = cli, *path: str) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    """Every option that takes a number, of every command but those of the service tree, with its command."""
    for param in command.params:
        if isinstance(param, click.Option) and isinstance(param.type, click.types.FloatParamType):
            yield path, param
    if isinstance(command, click.Group) and command.name != "stack":
        for name, each in command.commands.items():
            yield from options(each, *path, name)


NUMBERS = list(options())


@pytest.mark.parametrize(
    ("path", "option"), NUMBERS, ids=[" ".join((*path, option.opts[0])) for path, option in NUMBERS]
)
def test_every_option_of_a_number_refuses_what_is_none(path: tuple[str, ...], option: click.Option) -> None:
    for value in ("nan", "inf", "-inf", "-1"):
        result = run(*path, option.opts[0], value)
        assert result.exit_code == 2
        assert f"Invalid value for '{option.opts[0]}'" in result.stderr


def test_every_option_of_seconds_has_the_type_of_seconds() -> None:
    asked = [option for _, option in NUMBERS if str(option.name).endswith(_SECONDS)]
    assert len(asked) > 10
    assert {type(option.type) for option in asked} == {Seconds}


@pytest.mark.parametrize("value", ["2000001", "1e12"])
def test_seconds_have_a_bound(value: str) -> None:
    with pytest.raises(click.BadParameter, match="is not in the range 0<=x<=2000000"):
        Seconds().convert(value, None, None)


def test_seconds_within_their_bounds_are_taken() -> None:
    assert [Seconds(most_s=9).convert(each, None, None) for each in ("0", "0.5", "9")] == [0.0, 0.5, 9.0]
    with pytest.raises(click.BadParameter):
        Seconds(positive=True).convert("0", None, None)


def test_a_number_may_be_large() -> None:
    assert FiniteNumber(min=0).convert("1e300", None, None) == 1e300


@pytest.mark.parametrize("command", [("status",), ("feed", "list")], ids=" ".join)
@pytest.mark.parametrize("value", ["3601", "1e12"])
def test_a_wait_for_an_answer_is_one_that_librdkafka_and_sockets_take(
    command: tuple[str, ...], value: str
) -> None:
    result = run(*command, "--timeout", value)
    assert result.exit_code == 2
    assert "is not in the range 0<x<=3600" in result.stderr
