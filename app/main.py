"""Puts a worker together from its parts.

``faust -A app.main worker`` and ``tidegate worker`` start the same worker. The first takes its settings from
the environment alone.
"""

from __future__ import annotations

from typing import Any, NoReturn

from agents.control import control_agent
from agents.frontier import frontier_agent
from agents.handoff import handoff_agent
from agents.jobs import jobs_agent
from agents.rangefeed import rangefeed_agent
from app.application import Application
from app.logs import configure_logs
from app.worker import BatchWorker
from schemas.schema_ids import RegistrySchemaIds
from tidegate.access.secret_store import SecretStore
from tidegate.errors import SettingsError
from tidegate.redaction import remember_secret
from tidegate.worker.operations.report import AgentReports
from tidegate.worker.process.ending import EXIT_REFUSED, end_process
from tidegate.worker.process.settings import Settings, load_settings
from tidegate.worker.shell import Shell
from tidegate.worker.state.store import OpenStore


def create_app(settings: Settings) -> Application:
    """Make the application with all its agents."""
    _remember_secrets(settings)
    configure_logs(settings)
    secrets = SecretStore(settings.secrets_dir, settings.secrets_file)
    app = Application(settings, RegistrySchemaIds(allowed=settings.destinations, secrets=secrets))
    app.reports = add_agents(app)
    return app


def _remember_secrets(settings: Settings) -> None:
    """Register the secrets of the settings, so that no output of the process shows them."""
    for secret in (settings.sasl_password, settings.ssl_key_password, settings.metrics_token):
        if secret is not None:
            remember_secret(secret.get_secret_value())


def add_agents(app: Shell, open_store: OpenStore | None = None) -> AgentReports:
    """Register all agents with ``app``, and return their reports.

    ``rangefeed_agent`` says what ``open_store`` is.
    """
    partitions = rangefeed_agent(app, open_store)
    control_agent(app, partitions)
    handoff_agent(app, partitions)
    frontiers = frontier_agent(app)
    jobs_agent(app)
    return AgentReports(partitions.report, frontiers.report, frontiers.overlaps, partitions.ranges_in)


def run_worker(settings: Settings) -> NoReturn:
    """Run a worker until a signal ends it.

    The exit status is 0 after SIGTERM or SIGINT, 1 if the worker refuses to start, 70 after a fatal error.
    """
    BatchWorker(create_app(settings)).execute_from_commandline()
    raise AssertionError("execute_from_commandline ends the process")


def _app_of_the_environment() -> Application:
    try:
        return create_app(load_settings())
    except SettingsError as error:
        end_process(error, EXIT_REFUSED)


def __getattr__(name: str) -> Any:
    if name == "app":  # made on demand: `faust -A app.main` asks for it
        globals()["app"] = _app_of_the_environment()
        return globals()["app"]
    raise AttributeError(name)
