"""``tidegate worker``: runs the Faust worker, with its settings as options."""

from __future__ import annotations

from typing import Any

import click

from tidegate.cli.service_tree import service_module
from tidegate.errors import SettingsError


class WorkerCommand(click.Command):
    """A command with an option for every setting of the worker that is no secret.

    It has none if the worker is not installed.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """See ``click.Command``."""
        return [*_setting_options(), *super().get_params(ctx)]


@click.command(cls=WorkerCommand)
def worker(**settings: str | None) -> None:
    """Run a worker until it is stopped by SIGTERM or Ctrl-C.

    Every setting is a variable TIDEGATE_<NAME> in the environment. All but the secrets are options here too.
    Secrets come only from the environment, which other users of the machine cannot read:
    TIDEGATE_SASL_PASSWORD, TIDEGATE_SSL_KEY_PASSWORD and TIDEGATE_METRICS_TOKEN.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    run_worker = service_module("app.main").run_worker
    run_worker(service_module("tidegate.worker.process.settings").load_settings(**given))


def _setting_options() -> list[click.Parameter]:
    """Return an option for each setting that is no secret; the worker checks the values.

    There are none if the service tree, or the extra of the worker, is missing.
    """
    try:
        faults = service_module("tidegate.worker.process.settings_faults")
        fields: dict[str, Any] = service_module("tidegate.worker.process.settings").Settings.model_fields
    except SettingsError:
        return []
    return [
        click.Option([f"--{name.replace('_', '-')}"], default=None, metavar="VALUE", help=_help(field))
        for name, field in fields.items()
        if not name.endswith(faults.SECRET_NAMES)
    ]


def _help(field: Any) -> str:
    """Return the setting's description and its default, in the form of ``show_default``."""
    default = getattr(field.default, "value", field.default)
    return f"{field.description}" + ("" if default in (None, "") else f"  [default: {default}]")
