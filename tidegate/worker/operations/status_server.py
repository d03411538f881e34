"""The worker's HTTP server.

It serves /metrics for Prometheus, /health for probes, /status for people and commands, and /ranges for
``tidegate why``.
"""

from __future__ import annotations

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tidegate.access.bounded_listener import BoundedListener, listening_sockets
from tidegate.access.http_access import CONNECTION_S, HttpAccess, allowed_hosts, url_of
from tidegate.access.server_tls import server_tls
from tidegate.errors import TopologyError
from tidegate.redaction import redacted_values
from tidegate.spans import Span
from tidegate.worker.operations.bounded_server import BoundedServer
from tidegate.worker.operations.metrics import REGISTRY, ReportCollector
from tidegate.worker.operations.report import Reporter, SpanReporter, no_ranges
from tidegate.worker.process.settings import Settings


class StatusServer:
    """The HTTP server of one worker: it serves the report of the moment, on ``metrics_host``."""

    def __init__(
        self,
        settings: Settings,
        report: Reporter,
        ranges_in: SpanReporter = no_ranges,
        connection_s: float = CONNECTION_S,
    ) -> None:
        """``connection_s`` bounds each connection, from its first byte to its last."""
        self._settings = settings
        self._report = report
        self._ranges_in = ranges_in
        self._connection_s = connection_s
        self._collector = ReportCollector(report)
        self._access = HttpAccess(
            settings.metrics_host,
            allowed_hosts(settings.metrics_allowed_hosts),
            "" if settings.metrics_token is None else settings.metrics_token.get_secret_value(),
        )
        self._answers = {
            "/metrics": self._metrics,
            "/health": self._health,
            "/status": self._status,
            "/ranges": self._ranges,
        }
        self._runner: web.ServerRunner | None = None
        self._listening: BoundedListener | None = None

    async def start(self) -> str:
        """Begin to serve. Returns the URL.

        Raises ``TopologyError`` if the port is not free, and ``SettingsError`` for TLS files that cannot be
        used.
        """
        host, port = self._settings.metrics_host, self._settings.metrics_port
        tls = server_tls(
            self._settings.metrics_tls_certificate,
            self._settings.metrics_tls_key,
            ("metrics_tls_certificate", "metrics_tls_key"),
        )
        REGISTRY.register(self._collector)
        server = BoundedServer(self._answer, connection_s=self._connection_s)
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        try:
            sockets = listening_sockets(host, port)
        except OSError as error:
            raise TopologyError(
                f"The status server cannot listen on {host}:{port} ({error.strerror}); set "
                "TIDEGATE_METRICS_PORT to a free port, or to 0"
            ) from None
        self._listening = server.listen(sockets, tls)
        return url_of(host, sockets[0].getsockname()[1], tls=tls is not None)

    async def stop(self) -> None:
        """Serve no more."""
        if self._listening is not None:
            await self._listening.close()
            self._listening = None
        if self._runner is not None:
            REGISTRY.unregister(self._collector)
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        headers = request.headers
        refused = self._access.refusal(request.path, headers.get("Host"), headers.get("Authorization"))
        if refused is not None:
            return web.json_response({"error": refused.sentence}, status=refused.status)
        answer = self._answers.get(request.path)
        if answer is None or request.method not in ("GET", "HEAD"):
            return web.json_response({"error": "There is nothing here."}, status=404)
        return await answer(request)

    async def _metrics(self, _: web.BaseRequest) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _status(self, _: web.BaseRequest) -> web.Response:
        return web.json_response(redacted_values(self._report().as_json()))

    async def _ranges(self, request: web.BaseRequest) -> web.Response:
        """Answer with the ranges between the keys ``start`` and ``end``, in hex; 400 if they are no span."""
        try:
            span = Span(bytes.fromhex(request.query["start"]), bytes.fromhex(request.query["end"]))
            span.validate()
        except (KeyError, ValueError) as error:
            sentence = f"start and end are two rising keys in hex ({error})"
            return web.json_response({"error": sentence}, status=400)
        found = await self._ranges_in(span)
        return web.json_response({"partitions": [part.as_json() for part in found]})

    async def _health(self, _: web.BaseRequest) -> web.Response:
        """Answer with 200 while rows are acknowledged in time, else with 503.

        A quarantined range does not count: a probe restarts the worker, and that does not help the range.
        """
        report = self._report()
        stuck = [partition.partition for partition in report.stuck]
        long_steps = [
            {"partition": each.partition, "step_ms": each.step_ms, "records": each.step_of}
            for each in report.long_steps
        ]
        body = {"healthy": not stuck, "stalled_partitions": stuck, "long_steps": long_steps}
        return web.json_response(body, status=503 if stuck else 200)
