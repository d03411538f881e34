"""The worker's HTTP server: /metrics for Prometheus, /health for probes, /status for people and commands,
/ranges for ``tidegate why``."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.metrics import REGISTRY, ReportCollector
from app.report import Reporter, SpanReporter, no_ranges
from app.settings import Settings
from tidegate.errors import TopologyError
from tidegate.spans import Span


class StatusServer:
    """Serves the report of the moment, on loopback unless told otherwise."""

    def __init__(self, settings: Settings, report: Reporter, ranges_in: SpanReporter = no_ranges) -> None:
        self._settings = settings
        self._report = report
        self._ranges_in = ranges_in
        self._collector = ReportCollector(report)
        application = web.Application()
        application.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/health", self._health),
                web.get("/status", self._status),
                web.get("/ranges", self._ranges),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None)

    async def start(self) -> str:
        """Begin to serve; returns host and port. Raises ``TopologyError`` when the port cannot be had."""
        host, port = self._settings.metrics_host, self._settings.metrics_port
        REGISTRY.register(self._collector)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            raise TopologyError(
                f"The status server cannot listen on {host}:{port} ({error.strerror}); set "
                "TIDEGATE_METRICS_PORT to a free port, or to 0"
            ) from None
        return f"{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Serve no more."""
        REGISTRY.unregister(self._collector)
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response(self._report().as_json())

    async def _ranges(self, request: web.Request) -> web.Response:
        """The ranges between the keys ``start`` and ``end``, in hex; 400 when they are none."""
        try:
            span = Span(bytes.fromhex(request.query["start"]), bytes.fromhex(request.query["end"]))
            span.validate()
        except (KeyError, ValueError) as error:
            sentence = f"start and end are two rising keys in hex ({error})"
            return web.json_response({"error": sentence}, status=400)
        found = await self._ranges_in(span)
        return web.json_response({"partitions": [part.as_json() for part in found]})

    async def _health(self, _: web.Request) -> web.Response:
        """200 while rows are acknowledged in time. No restart helps a quarantined range: an operator must."""
        stalled = [partition.partition for partition in self._report().stalled]
        body = {"healthy": not stalled, "stalled_partitions": stalled}
        return web.json_response(body, status=503 if stalled else 200)
