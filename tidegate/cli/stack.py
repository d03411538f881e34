"""``tidegate stack``: runs the servers for development. In a checkout ``python -m stack`` does the same."""

from __future__ import annotations

import click

from tidegate.cli.failure import Commands
from tidegate.cli.service_tree import service_module
from tidegate.errors import SettingsError


class StackCommands(Commands):
    """The commands of the service tree's own command line. It is imported only when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See ``click.Group``."""
        try:
            return list(_commands().list_commands(ctx))
        except SettingsError:
            return []

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See ``click.Group``."""
        return _commands().get_command(ctx, cmd_name)


@click.group(cls=StackCommands)
def stack() -> None:
    """Real servers for development: up, status, down."""


def _commands() -> click.Group:
    group = service_module("stack.cli").cli
    assert isinstance(group, click.Group)
    return group
